"""A Wyoming session: reads the events of one connection, and answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from wyoming.asr import (
    Transcribe,
    Transcript,
    TranscriptChunk,
    TranscriptStart,
    TranscriptStop,
)
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_write_event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.http.addresses import name_client
from whisper_hailo.http.connections import Connection
from whisper_hailo.serve.audio import AudioDecoders
from whisper_hailo.serve.concurrency import run_until_disconnect
from whisper_hailo.serve.errors import (
    ClientDisconnectedError,
    outcome_of,
    sanitize_error,
    translate_full_storage,
)
from whisper_hailo.serve.home_assistant import HomeAssistantNames
from whisper_hailo.serve.logs import log_refusal
from whisper_hailo.serve.request import Caller
from whisper_hailo.serve.routes.state_machine import StateMachine
from whisper_hailo.serve.routes.wyoming.end_of_speech import SampleBounds
from whisper_hailo.serve.routes.wyoming.event_reader import EventReader
from whisper_hailo.serve.routes.wyoming.recording import WyomingRecording
from whisper_hailo.serve.routes.wyoming.states import (
    AWAITING_RECORDING,
    TRANSITIONS,
    SessionEvent,
    SessionState,
    make_state_error,
)
from whisper_hailo.serve.routes.wyoming.transcribe_request import (
    TranscribeRequest,
    parse_transcribe,
)
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio

_IDLE_TIMEOUT_S: Final = 600.0
"""For a client to begin a recording; until then its connection makes room for newcomers."""

_WRITE_TIMEOUT_S: Final = 30.0  # for a client that does not read what it is sent
_GAP_S: Final = (
    0.01  # chunks of a microphone are further apart, those of a file are not
)

_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class _EarlyTranscript:
    """The transcript of a command that seems to be over, begun in a pause."""

    bounds: SampleBounds
    ticket: Ticket


class WyomingSession:
    """One connection.

    Args:
        names: added to the hotwords of each recording.
        describe: returns what the server answers to `describe`.
        finds_end: clients leave the end of commands to the server, also those that do not say so.
    """

    def __init__(
        self,
        service: TranscriptionService,
        decoders: AudioDecoders,
        names: HomeAssistantNames,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        describe: Callable[[], Info],
        finds_end: bool,
    ) -> None:
        self._service = service
        self._decoders = decoders
        self._names = names
        self._reader = reader
        self._writer = writer
        self._describe = describe
        self._finds_end = finds_end
        peer_address, *_ = writer.get_extra_info("peername") or ("",)
        self._caller = Caller(name_client(peer_address), "wyoming")
        self._connection = cast(Connection, writer.transport)
        self._events = EventReader(reader, service.wyoming_quota)
        self._machine = StateMachine(SessionState.IDLE, TRANSITIONS, make_state_error)
        self._recording = WyomingRecording(service.limits, service.wyoming_quota)
        self._early: _EarlyTranscript | None = None
        self._request = TranscribeRequest()
        self._next_request = TranscribeRequest()

    async def run(self) -> None:
        """Answer events until the client leaves, or is refused."""
        refusal: Exception | None = None
        self._set_idle()
        try:
            await self._answer_events()
        except ClientDisconnectedError:
            pass
        except Exception as error:
            refusal = translate_full_storage(error)
        finally:
            self._recording.close()
            self._drop_early()
            await self._events.close()
        if refusal is not None:
            await self._send_error(refusal)

    async def _answer_events(self) -> None:
        while True:
            is_idle = self._machine.state in AWAITING_RECORDING
            event = await self._events.read(
                _IDLE_TIMEOUT_S if is_idle else self._recording.patience_s
            )
            if event is None:
                return
            await self._process_event(event)
            self._events.free(event)

    async def _process_event(self, event: Event) -> None:
        """Answer an event; those of other services are ignored."""
        if AudioChunk.is_type(event.type):
            await self._process_chunk(event)
        elif Describe.is_type(event.type):
            await self._write_event(self._describe())
        elif Transcribe.is_type(event.type):
            self._note_request(event)
            with self._service.wyoming_quota.hold_request(self._caller.client):
                pass  # refused before the recording is sent
        elif AudioStart.is_type(event.type):
            self._begin_recording()
        elif AudioStop.is_type(event.type):
            if self._change_state(SessionEvent.STOP) is SessionState.ANSWERING:
                self._recording.stop()
                await self._answer_recording()
            self._end_recording()
        elif Ping.is_type(event.type):
            await self._write_event(Pong(text=Ping.from_event(event).text))

    async def _process_chunk(self, chunk: Event) -> None:
        """Keep a chunk; answer early if it ends a command and the client waits for that."""
        if self._machine.state is SessionState.IDLE:
            self._begin_recording()
        state = self._change_state(SessionEvent.CHUNK)
        is_over = self._recording.add_chunk(chunk, self._request.silence_s)
        if state is SessionState.ANSWERED:
            if self._recording.has_more_speech:
                self._change_state(SessionEvent.MORE_SPEECH)
            return
        if self._recording.is_answered:
            return  # it is transcribed as a whole when the client stops it
        answers_early = self._finds_end or self._request.relies_on_server
        # A client that sends a file has sent more.
        if is_over and answers_early and not await self._events.has_next(_GAP_S):
            self._change_state(SessionEvent.END_OF_SPEECH)
            self._recording.note_answer()
            await self._answer_recording()
            self._recording.free_live_audio()
        else:
            self._update_early()

    def _change_state(self, event: SessionEvent) -> SessionState:
        """Return the state to which an event leads; only idle connections may be closed."""
        before = self._machine.state
        state = self._machine.process(event)
        # Only when it changes: chunks that are dropped must not prolong an idle connection.
        if state is not before:
            if state in AWAITING_RECORDING:
                self._set_idle()
            else:
                self._connection.set_busy()
        return state

    def _set_idle(self) -> None:
        self._connection.set_idle(_IDLE_TIMEOUT_S + _WRITE_TIMEOUT_S)

    def _begin_recording(self) -> None:
        """Begin a recording; one that begins again keeps what was asked of it."""
        is_new = self._machine.state is not SessionState.RECORDING
        self._change_state(SessionEvent.START)
        self._end_recording()
        self._names.refresh()
        if is_new:
            self._request = self._next_request
            self._next_request = TranscribeRequest()

    def _end_recording(self) -> None:
        """Free the recording."""
        self._drop_early()
        self._recording.close()
        self._recording = WyomingRecording(
            self._service.limits, self._service.wyoming_quota
        )

    def _update_early(self) -> None:
        """Begin with the text in a pause; drop it if more was said."""
        bounds = self._recording.pause_bounds
        if self._early is not None and self._early.bounds != bounds:
            self._drop_early()
        # Beside other work, it would take time that others wait for, and may be for nothing.
        if bounds is None or self._early is not None or not self._service.is_idle():
            return
        audio = self._recording.cut_command(bounds)
        ticket = self._submit(audio, is_early=True)
        self._early = _EarlyTranscript(bounds, ticket)

    def _submit(
        self, audio: FloatArray | OpenedAudio, *, is_early: bool = False
    ) -> Ticket:
        """Begin to transcribe `(n_samples,)` at 16 kHz, with the names that are expected."""
        choices = self._request.choices
        prompts = self._service.find_model(choices.model).defaults.options.prompts
        choices = self._names.add_to(choices, prompts.hotwords)
        return self._service.submit(audio, choices, self._caller, is_early=is_early)

    def _drop_early(self) -> None:
        """Give up an early transcript: more was said, or the client has left."""
        if self._early is not None:
            self._early.ticket.close()
        self._early = None

    def _note_request(self, event: Event) -> None:
        """Note what a client asks for, which it may do after its recording began.

        Raises:
            MalformedError: a value has the wrong type.
            UnknownModelError: no model has the name.
        """
        request = parse_transcribe(event)
        # Refused before the recording is sent.
        self._service.find_model(request.choices.model)
        if self._machine.state is SessionState.RECORDING:
            self._request = request
        else:
            self._next_request = request

    async def _answer_recording(self) -> None:
        """Transcribe the recording, as far as it has come."""
        with self._service.wyoming_quota.hold_request(self._caller.client):
            await run_until_disconnect(
                self._wait_for_disconnect(), self._send_transcript()
            )
        self._drop_early()
        self._change_state(SessionEvent.ANSWER_SENT)

    async def _send_transcript(self) -> None:
        """Send the text of the recording, or of the command in it."""
        bounds = self._recording.command_bounds
        if bounds is None:
            self._drop_early()
            transcript = await self._send_deltas(
                await self._recording.open_whole(self._decoders)
            )
        else:
            transcript = await self._send_command(bounds)
        await self._write_event(transcript)
        await self._write_event(TranscriptStop())

    async def _send_command(self, bounds: SampleBounds) -> Transcript:
        """Send the text of a command in the recording; return it."""
        audio = self._recording.cut_command(bounds)
        if not audio.size:
            await self._write_event(
                TranscriptStart(language=self._request.choices.language)
            )
            return Transcript("", language=self._request.choices.language)
        if self._early is not None and self._early.bounds == bounds:
            return await self._send_early(self._early.ticket, audio)
        self._drop_early()
        return await self._send_deltas(audio)

    async def _send_early(self, ticket: Ticket, audio: FloatArray) -> Transcript:
        """Send a text that was begun early, which is a request only now; return it."""
        result = await ticket.result(self._caller.priority)
        model = self._service.find_model(self._request.choices.model)
        seconds = audio.size / SAMPLE_RATE_HZ
        model.record_item(self._caller, seconds, result.language, result.text)
        await self._write_event(
            TranscriptStart(language=self._request.choices.language)
        )
        await self._write_event(TranscriptChunk(result.text))
        return Transcript(result.text, language=result.language)

    async def _send_deltas(self, audio: FloatArray | OpenedAudio) -> Transcript:
        """Send the text of `(n_samples,)` at 16 kHz as it is final; return it."""
        with self._submit(audio) as ticket:
            await self._write_event(
                TranscriptStart(language=self._request.choices.language)
            )
            async for delta, _ in ticket.deltas():
                await self._write_event(TranscriptChunk(delta))
        result = ticket.transcript
        return Transcript(result.text, language=result.language)

    async def _wait_for_disconnect(self) -> None:
        """Wait until the client has left; what it sends meanwhile is read later.

        Audio that goes on after an early answer is kept already.
        """
        with suppress(Exception):  # what cannot be read is refused after the answer
            while True:
                event = await self._events.peek()
                if event is None:
                    return
                is_early = self._machine.state is SessionState.ANSWERING_EARLY
                if not (is_early and AudioChunk.is_type(event.type)):
                    break
                self._recording.add_chunk(event, self._request.silence_s)
                await self._events.drop()
        await asyncio.Event().wait()

    async def _write_event(self, message: Eventable) -> None:
        """Send an event.

        Raises:
            ClientDisconnectedError: the client has left, or does not read.
        """
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await async_write_event(message.event(), self._writer)
        except OSError as error:  # a time-out is an OSError
            raise ClientDisconnectedError from error

    async def _send_error(self, error: Exception) -> None:
        """Send an error, and wait until the client has read it."""
        self._service.metrics.count_failure(error)
        status = 400 if isinstance(error, WhisperHailoError | TimeoutError) else 500
        message = sanitize_error(error)
        log_refusal(self._caller, error, status=status, why=message)
        with suppress(ClientDisconnectedError, OSError):  # a time-out is an OSError
            await self._write_event(Error(text=message, code=outcome_of(error)))
            # A socket that is closed with unread bytes is reset, and the error with it.
            async with asyncio.timeout(_LINGER_S):
                self._writer.write_eof()
                while await self._reader.read(_LINGER_BYTES):
                    pass
