"""A Wyoming session: reads the events of one connection, and answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

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
from whisper_hailo.http.addresses import normalize_address
from whisper_hailo.http.connections import Connection
from whisper_hailo.serve.audio import AudioDecoders
from whisper_hailo.serve.concurrency import run_until_disconnect
from whisper_hailo.serve.errors import (
    ClientDisconnectedError,
    outcome_of,
    sanitize_error,
    translate_full_storage,
)
from whisper_hailo.serve.logs import log_refusal
from whisper_hailo.serve.request import Caller, Choices, join_hotwords
from whisper_hailo.serve.routes.state_machine import StateMachine
from whisper_hailo.serve.routes.wyoming.end_of_speech import SILENCE_S, SampleBounds
from whisper_hailo.serve.routes.wyoming.event_reader import EventReader, MalformedError
from whisper_hailo.serve.routes.wyoming.recording import WyomingRecording
from whisper_hailo.serve.routes.wyoming.states import (
    AWAITING_RECORDING,
    TRANSITIONS,
    SessionEvent,
    SessionState,
    make_state_error,
)
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket

_IDLE_TIMEOUT_S: Final = 600.0
"""For a client to begin a recording; until then its connection makes room for newcomers."""

_STALL_TIMEOUT_S: Final = 60.0  # for a client to continue a recording
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
        describe: returns what the server answers to `describe`.
        finds_end: the server finds the end of commands; otherwise clients stop them.
    """

    def __init__(
        self,
        service: TranscriptionService,
        decoders: AudioDecoders,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        describe: Callable[[], Info],
        finds_end: bool,
    ) -> None:
        self._service = service
        self._decoders = decoders
        self._reader = reader
        self._writer = writer
        self._describe = describe
        self._finds_end = finds_end
        peer_address, *_ = writer.get_extra_info("peername") or ("",)
        self._caller = Caller(normalize_address(peer_address), "wyoming")
        self._connection = cast(Connection, writer.transport)
        self._events = EventReader(reader, service.quota)
        self._machine = StateMachine(SessionState.IDLE, TRANSITIONS, make_state_error)
        self._recording = WyomingRecording(service.limits, service.quota)
        self._early: _EarlyTranscript | None = None
        # What the client wants of its next recording.
        self._choices = Choices()
        self._silence_s = SILENCE_S["default"]

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
                _IDLE_TIMEOUT_S if is_idle else _STALL_TIMEOUT_S
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
            self._note_choices(event)
            with self._service.quota.hold_request(self._caller.client):
                pass  # refused before the recording is sent
        elif AudioStart.is_type(event.type):
            self._change_state(SessionEvent.START)
            self._begin_recording()
        elif AudioStop.is_type(event.type):
            if self._change_state(SessionEvent.STOP) is SessionState.ANSWERING:
                self._recording.stop()
                await self._answer_recording()
        elif Ping.is_type(event.type):
            await self._write_event(Pong(text=Ping.from_event(event).text))

    async def _process_chunk(self, chunk: Event) -> None:
        """Keep a chunk; answer if it ends the command."""
        if self._change_state(SessionEvent.CHUNK) is SessionState.ANSWERED:
            return
        is_over = self._recording.add_chunk(
            chunk, self._silence_s if self._finds_end else None
        )
        if not is_over:
            self._update_early()
        elif not await self._events.has_next(
            _GAP_S
        ):  # a client that sends a file sent more
            self._change_state(SessionEvent.END_OF_SPEECH)
            await self._answer_recording()

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
        self._drop_early()
        self._recording.close()
        self._recording = WyomingRecording(self._service.limits, self._service.quota)

    def _update_early(self) -> None:
        """Begin with the text in a pause; drop it if more was said."""
        bounds = self._recording.pause_bounds
        if self._early is not None and self._early.bounds != bounds:
            self._drop_early()
        # Beside other work, it would take time that others wait for, and may be for nothing.
        if bounds is None or self._early is not None or not self._service.is_idle():
            return
        audio = self._recording.cut_command(bounds)
        ticket = self._service.submit(audio, self._choices, self._caller, is_early=True)
        self._early = _EarlyTranscript(bounds, ticket)

    def _drop_early(self) -> None:
        """Give up an early transcript: more was said, or the client has left."""
        if self._early is not None:
            self._early.ticket.close()
        self._early = None

    def _note_choices(self, event: Event) -> None:
        """Note what a client wants; names and terms are hotwords, the names first.

        Raises:
            MalformedError: a value has the wrong type.
            UnknownModelError: no model has the name.
        """
        _check_types(event.data)
        transcribe = Transcribe.from_event(event)
        self._service.find_model(
            transcribe.name
        )  # refused before the recording is sent
        self._silence_s = SILENCE_S.get(
            event.data.get("vad_sensitivity", ""), SILENCE_S["default"]
        )
        hotwords = [
            *(transcribe.transcript_names or ()),
            *(transcribe.transcript_terms or ()),
        ]
        self._choices = Choices(
            model=transcribe.name,
            language=transcribe.language or None,
            hotwords=join_hotwords(hotwords),
        )

    async def _answer_recording(self) -> None:
        """Transcribe the recording, and be ready for the next one."""
        with self._service.quota.hold_request(self._caller.client):
            await run_until_disconnect(
                self._wait_for_disconnect(), self._send_transcript()
            )
        self._choices = Choices()
        self._silence_s = SILENCE_S["default"]
        self._begin_recording()
        self._change_state(SessionEvent.ANSWER_SENT)

    async def _send_transcript(self) -> None:
        """Send the text of the recording, or of the command in it."""
        bounds = self._recording.command_bounds
        if bounds is None:
            audio = await self._recording.decode(self._decoders)
        else:
            audio = self._recording.cut_command(bounds)
        if not audio.size:
            await self._write_event(TranscriptStart(language=self._choices.language))
            transcript = Transcript("", language=self._choices.language)
        elif self._early is not None and self._early.bounds == bounds:
            transcript = await self._send_early(self._early.ticket, audio)
        else:
            self._drop_early()
            transcript = await self._send_deltas(audio)
        await self._write_event(transcript)
        await self._write_event(TranscriptStop())

    async def _send_early(self, ticket: Ticket, audio: FloatArray) -> Transcript:
        """Send a text that was begun early, which is a request only now; return it."""
        result = await ticket.result(self._caller.priority)
        model = self._service.find_model(self._choices.model)
        seconds = audio.size / SAMPLE_RATE_HZ
        model.record_item(self._caller, seconds, result.language, result.text)
        await self._write_event(TranscriptStart(language=self._choices.language))
        await self._write_event(TranscriptChunk(result.text))
        return Transcript(result.text, language=result.language)

    async def _send_deltas(self, audio: FloatArray) -> Transcript:
        """Send the text of `(n_samples,)` at 16 kHz as it is final; return it."""
        with self._service.submit(audio, self._choices, self._caller) as ticket:
            await self._write_event(TranscriptStart(language=self._choices.language))
            async for delta, _ in ticket.deltas():
                await self._write_event(TranscriptChunk(delta))
        result = ticket.transcript
        return Transcript(result.text, language=result.language)

    async def _wait_for_disconnect(self) -> None:
        """Wait until the client has left; what it sends meanwhile is read later.

        Audio that comes after the end of a command is dropped.
        """
        with suppress(Exception):  # what cannot be read is refused after the answer
            while True:
                event = await self._events.peek()
                if event is None:
                    return
                if not (self._recording.finds_end and AudioChunk.is_type(event.type)):
                    break
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


def _check_types(data: Mapping[str, Any]) -> None:
    """Refuse values of `transcribe` that have the wrong type; Wyoming's own class takes any.

    Raises:
        MalformedError: a value has.
    """
    for name in ("name", "language", "vad_sensitivity"):
        if not isinstance(data.get(name) or "", str):
            raise MalformedError(f"{name} of transcribe is no text")
    for name in ("transcript_names", "transcript_terms"):
        texts = data.get(name) or []
        if not isinstance(texts, list) or not all(
            isinstance(text, str) for text in texts
        ):
            raise MalformedError(f"{name} of transcribe is no list of texts")
