"""Wyoming, Home Assistant's protocol: a recording in pieces, its text in pieces and whole."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final, cast

from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_write_event
from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info
from wyoming.ping import Ping, Pong

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.core.version import __version__
from whisper_hailo.http.addresses import address_of
from whisper_hailo.http.connections import Connection, ConnectionLimiter
from whisper_hailo.serve.audio import AudioDecoders
from whisper_hailo.serve.concurrency import run_until_disconnect
from whisper_hailo.serve.errors import (
    ClientDisconnectedError,
    outcome_of,
    sanitize_error,
    translate_full_storage,
)
from whisper_hailo.serve.logs import log_refusal
from whisper_hailo.serve.quota import Reservation
from whisper_hailo.serve.request import Caller, Choices, join_hotwords
from whisper_hailo.serve.routes.wyoming_audio import (
    LINE_BYTES,
    SILENCE_S,
    MalformedError,
    WyomingRecording,
    read_event,
)
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket

_IDLE_S: Final = 600.0
"""For a client to begin a recording; until then its connection makes room for newcomers."""

_STALL_S: Final = 60.0  # for a client to continue a recording
_WRITE_S: Final = 30.0  # how long it may leave messages unread
_GAP_S: Final = 0.01  # chunks of a microphone are further apart

_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 1 << 16


class WyomingSession:
    """One connection."""

    def __init__(
        self, server: WyomingServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._service = server.service
        self._reader = reader
        self._writer = writer
        peer = (writer.get_extra_info("peername") or ("",))[0]
        self._caller = Caller(address_of(peer), "wyoming")
        self._choices = Choices()
        self._silence_s = SILENCE_S["default"]
        self._recording = WyomingRecording(self._service.limits, self._service.quota)
        self._early: tuple[tuple[int, int], Ticket] | None = None  # of which samples
        self._is_answered = False
        self._next: asyncio.Task[Event | None] | None = None
        self._connection = cast(Connection, writer.transport)
        self._incoming = Reservation(self._service.quota)
        self._patience_s = _IDLE_S

    async def run(self) -> None:
        """Answer events until the client leaves, or does what it may not."""
        refused: Exception | None = None
        self._set_idle()
        try:
            while (event := await self._read()) is not None:
                await self._take(event)
                self._incoming.take(-len(event.payload or b""))
        except ClientDisconnectedError:
            pass
        except Exception as error:
            refused = translate_full_storage(error)
        finally:
            self._recording.stack.close()
            self._drop_early()
            if self._next is not None:
                self._next.cancel()
                await asyncio.gather(self._next, return_exceptions=True)
            self._incoming.close()
        if refused is not None:
            await self._refuse(refused)

    async def _read(self) -> Event | None:
        task, self._next = self._read_ahead(), None
        async with asyncio.timeout(self._patience_s):
            return await task

    def _read_ahead(self) -> asyncio.Task[Event | None]:
        """Return the task that reads the next event."""
        if self._next is None:
            self._next = asyncio.create_task(read_event(self._reader, self._incoming))
        return self._next

    async def _take(self, event: Event) -> None:
        if AudioChunk.is_type(event.type):
            await self._take_chunk(event)
        elif Describe.is_type(event.type):
            await self._write(self._server.info())
        elif Transcribe.is_type(event.type):
            self._choices = self._chosen(event)
            with self._service.quota.hold_request(self._caller.client):
                pass  # refused before its recording is sent
        elif AudioStart.is_type(event.type):
            self._begin()
            self._connection.set_busy()
            self._patience_s = _STALL_S
        elif AudioStop.is_type(event.type):
            if not self._is_answered:
                end = self._recording.end
                if end is not None and not end.is_lone_command():
                    self._recording.end = None
                await self._answer()
            self._is_answered = False
        elif Ping.is_type(event.type):
            await self._write(Pong(text=Ping.from_event(event).text))

    async def _take_chunk(self, event: Event) -> None:
        """Keep a chunk; answer if it ends the command, or begin with the text in a pause."""
        if self._is_answered:
            return
        if self._recording.add(event, self._silence_s if self._server.finds_end else None):
            # One that sends a file has sent more already.
            await asyncio.wait({next_event := self._read_ahead()}, timeout=_GAP_S)
            if not next_event.done():
                await self._answer()
                self._is_answered = True
            return
        end = self._recording.end
        bounds = end.bounds() if end is not None and end.is_pausing else None
        if self._early is not None and self._early[0] != bounds:
            self._drop_early()
        if bounds is not None and self._early is None and self._service.is_idle():
            audio = self._recording.command(bounds)
            ticket = self._service.submit(audio, self._choices, self._caller, is_early=True)
            self._early = bounds, ticket

    def _drop_early(self) -> None:
        """Give up an early text: more was said, or the client has left."""
        if self._early is not None:
            self._early[1].close()
        self._early = None

    async def _answer(self) -> None:
        """Transcribe what came, and be ready for the next recording."""
        self._connection.set_busy()
        with self._service.quota.hold_request(self._caller.client):
            await run_until_disconnect(self._left(), self._transcribe())
        self._choices = Choices()
        self._silence_s = SILENCE_S["default"]
        self._begin()
        self._set_idle()

    def _set_idle(self) -> None:
        self._connection.set_idle(_IDLE_S + _WRITE_S)
        self._patience_s = _IDLE_S

    def _begin(self) -> None:
        self._drop_early()
        self._is_answered = False
        self._recording.stack.close()
        self._recording = WyomingRecording(self._service.limits, self._service.quota)

    def _chosen(self, event: Event) -> Choices:
        """Return what a client wants; names and terms are hotwords, the names first."""
        data = event.data
        texts = [data.get(name) or "" for name in ("name", "language", "vad_sensitivity")]
        for name in ("transcript_names", "transcript_terms"):
            listed = data.get(name) or []
            texts += listed if isinstance(listed, list) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise MalformedError("transcribe has a value that is no text, or no list of texts")
        asked = Transcribe.from_event(event)
        self._service.find_model(asked.name)  # refused before its recording is sent
        self._silence_s = SILENCE_S.get(data.get("vad_sensitivity", ""), SILENCE_S["default"])
        words = [*(asked.transcript_names or ()), *(asked.transcript_terms or ())]
        language = asked.language or None
        return Choices(model=asked.name, language=language, hotwords=join_hotwords(words))

    async def _transcribe(self) -> None:
        """Send the text of the recording, or of the command in it."""
        end, choices, caller = self._recording.end, self._choices, self._caller
        bounds = None if end is None else end.bounds()
        if bounds is None:
            audio = await self._recording.audio(self._server.decoders)
        else:
            audio = self._recording.command(bounds)
        text, language = "", choices.language
        if audio.size and self._early is not None and self._early[0] == bounds:
            heard = await self._early[1].result(caller.priority)
            text, language = heard.text, heard.language
            worker = self._service.find_model(choices.model)
            worker.record_item(caller, audio.size / SAMPLE_RATE_HZ, language, text)
            await self._write(TranscriptStart(language=choices.language))
            await self._write(TranscriptChunk(text))
        elif audio.size:
            self._drop_early()
            with self._service.submit(audio, choices, caller) as ticket:
                await self._write(TranscriptStart(language=choices.language))
                async for delta, _ in ticket.deltas():
                    await self._write(TranscriptChunk(delta))
            text, language = ticket.transcript.text, ticket.transcript.language
        else:
            await self._write(TranscriptStart(language=choices.language))
        await self._write(Transcript(text, language=language))
        await self._write(TranscriptStop())

    async def _left(self) -> None:
        """Wait until the client has left; what it sends meanwhile is read later.

        Audio that comes after the end of a command is dropped.
        """
        with suppress(Exception):
            while True:
                event = await asyncio.shield(self._read_ahead())
                if event is None:
                    return
                if self._recording.end is None or not AudioChunk.is_type(event.type):
                    break
                self._next = None
                self._incoming.take(-len(event.payload or b""))
        await asyncio.Event().wait()

    async def _write(self, what: Eventable) -> None:
        try:
            async with asyncio.timeout(_WRITE_S):
                await async_write_event(what.event(), self._writer)
        except OSError as error:  # a time-out is one
            raise ClientDisconnectedError from error

    async def _refuse(self, error: Exception) -> None:
        """Send what is wrong, and wait until the client has read it."""
        self._service.metrics.count_failure(error)
        status = 400 if isinstance(error, WhisperHailoError | TimeoutError) else 500
        why = sanitize_error(error)
        log_refusal(self._caller, error, status=status, why=why)
        with suppress(ClientDisconnectedError, OSError):  # a time-out is one
            await self._write(Error(text=why, code=outcome_of(error)))
            # Unread bytes would reset the connection before.
            async with asyncio.timeout(_LINGER_S):
                self._writer.write_eof()
                while await self._reader.read(_LINGER_BYTES):
                    pass


class WyomingServer:
    """Answers connections; `finds_end` of commands, or leaves that to clients."""

    def __init__(
        self, service: TranscriptionService, limiter: ConnectionLimiter, *, finds_end: bool = True
    ) -> None:
        self.service = service
        self.finds_end = finds_end
        self.decoders = AudioDecoders(service.limits)
        self._limiter = limiter
        self._tasks: set[asyncio.Task[Any]] = set()

    def info(self) -> Info:
        """Return what a client can choose, the default model first."""
        attribution = Attribution("whisper-hailo", "https://github.com/openai/whisper")
        offered = [
            AsrModel(
                name=model.name,
                attribution=attribution,
                installed=True,
                description=f"Whisper: {model.name}",
                version=__version__,
                languages=list(model.languages),
            )
            for model in self.service.models
        ]
        program = AsrProgram(
            name="whisper-hailo",
            attribution=attribution,
            installed=True,
            description="Whisper on Hailo NPUs and edge CPUs",
            version=__version__,
            models=offered,
            supports_transcript_streaming=True,
            requires_external_vad=not self.finds_end,
        )
        return Info(asr=[program])

    async def serve(self, listener: socket.socket) -> asyncio.Server:
        """Return a server that answers at a socket until it is closed."""
        loop = asyncio.get_running_loop()
        backlog = self._limiter.backlog
        return await loop.create_server(self._connection, sock=listener, backlog=backlog)

    def _connection(self) -> Connection:
        reader = asyncio.StreamReader(LINE_BYTES)
        connection = Connection(self._limiter, refusal=b"")  # its clients read no HTTP
        connection.inner = asyncio.StreamReaderProtocol(reader, self._answer)
        return connection

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to its end."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            await WyomingSession(self, reader, writer).run()
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def close(self) -> None:
        """End all connections, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
