"""Realtime sessions: `/v1/realtime` of OpenAI's API, sound in and text out by WebSocket."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.core.types import UNSPACED_LANGUAGES
from whisper_hailo.http.connections import Connection
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial, Started
from whisper_hailo.serve.access import CLIENT, error_body, refuse
from whisper_hailo.serve.audio import check_duration
from whisper_hailo.serve.concurrency import iterate_on_thread
from whisper_hailo.serve.errors import BusyError, ClientDisconnectedError
from whisper_hailo.serve.quota import Reservation
from whisper_hailo.serve.request import Caller, Priority
from whisper_hailo.serve.routes.openai import word_logprobs
from whisper_hailo.serve.routes.realtime_protocol import (
    APPEND,
    COMMIT,
    UPDATE,
    ClientMessage,
    RealtimeSettings,
    SessionError,
    error_event,
    parse_message,
    sample_stream,
)
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.serve.service import TranscriptionService

logger = logging.getLogger(__name__)

_LEAST_S: Final = 0.1  # less is no recording

_PIECE_BYTES: Final = 256 << 10
"""Sound is heard in pieces of about this size; in between text comes, and clients leave."""

_WAITING_BYTES: Final = 4 << 20  # when so much is not heard yet, the next message is not read

IDLE_S: Final = 600.0  # So long a client may be silent
_POLL_S: Final = 1.0  # between checks that a client is there while nothing is read from it
_WRITE_S: Final = 30.0  # how long it may leave messages unread

_MOST_THREADS: Final = 1 << 10
"""One for each stream that is heard; how many those are is the engine's to say."""

_API: Final = "realtime"
"""Also the subprotocol that a browser asks for beside its key: it can send no headers."""

_GONE, _INTERNAL, _RESTART = 1001, 1011, 1012
_BUFFER: Final = "input_audio_buffer."
_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription."
_FINISH: Final = "finish"

ServerEvent: TypeAlias = dict[str, Any]
"""An event of the API, but for its id."""


def realtime_router(service: TranscriptionService) -> APIRouter:
    """Return `/v1/realtime`, a WebSocket, as OpenAI has it for live text."""
    routes = APIRouter()
    threads = ThreadPoolExecutor(_MOST_THREADS, "live")

    @routes.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket) -> None:
        """Serve a connection to its end; one that is refused gets an answer of HTTP."""
        caller = Caller(websocket.scope[CLIENT], _API, Priority.LIVE)
        query = websocket.query_params
        try:
            intent = query.get("intent", "transcription")
            if intent != "transcription":
                raise OptionError(f"intent is {intent[:40]!r}, expected transcription")
            model = query.get("model") or service.default.name
            service.find_model(model)
            with service.quota.hold_live_stream(caller.client):
                session = RealtimeSession(service, caller, websocket, threads, model)
                offered = _API in websocket.scope["subprotocols"]
                await websocket.accept(_API if offered else None)
                await session.run()
        except WhisperHailoError as error:
            answer = refuse(websocket.scope, error, service.metrics)
            await websocket.send_denial_response(answer)
        except WebSocketDisconnect:
            pass  # before it was answered

    return routes


class RealtimeSession:
    """One connection that was accepted."""

    def __init__(
        self,
        service: TranscriptionService,
        caller: Caller,
        websocket: WebSocket,
        threads: Executor,
        model: str,
    ) -> None:
        self._service = service
        self._websocket = websocket
        self._threads = threads
        self._id = _new_id("sess")
        self._items = Items(service, caller, RealtimeSettings.of(model))
        self._model: ServedModel | None = None
        self._model_in_use = ExitStack()
        self._messages: deque[ClientMessage] = deque()
        self._stored = Reservation(service.quota)  # for what waits
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Answer until the client leaves, or the server ends."""
        speaking = asyncio.create_task(self._process_messages())
        reading = asyncio.create_task(self._read())
        ending = asyncio.create_task(self._service.ending.wait())
        code: int | None = None
        self._use_model()
        try:
            await asyncio.wait({speaking, reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done() and not (reading.done() or speaking.done()):
                reading.cancel()
                await self._put(ClientMessage(_FINISH))
                await speaking
                code = _RESTART
            elif speaking.done():
                speaking.result()
            elif reading.result():
                code = _GONE
        except (ClientDisconnectedError, WebSocketDisconnect, OSError):  # a time-out is one
            pass
        except Exception as error:
            code = _INTERNAL
            self._service.metrics.count_failure(error)
            logger.exception("a realtime session failed")
        finally:
            self._items.leave()
            for task in (speaking, reading, ending):
                task.cancel()
            await asyncio.gather(speaking, reading, ending, return_exceptions=True)
            self._messages.clear()
            self._stored.close()
            self._model_in_use.close()
        if code is not None:
            with suppress(WebSocketDisconnect, RuntimeError, OSError):  # it has left meanwhile
                async with asyncio.timeout(_WRITE_S):
                    await self._websocket.close(code)

    async def _read(self) -> bool:
        """Queue messages; return whether the client is still there, and silent."""
        connection: Connection | None = getattr(self._websocket.state, "connection", None)
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    received = await self._websocket.receive()
            except TimeoutError:
                return True
            if received["type"] != "websocket.receive":
                return False
            message = parse_message(received.get("text"))
            try:
                self._stored.take(message.n_bytes)
            except BusyError as error:
                message = ClientMessage("", message.event_id, error=error)
            await self._put(message)
            del received, message
            while self._stored.n_bytes >= _WAITING_BYTES:
                # uvicorn reads nothing meanwhile, and does not notice that the client leaves.
                if connection is not None and connection.is_closed_by_peer:
                    return False
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S), self._changed:
                        await self._changed.wait_for(lambda: self._stored.n_bytes < _WAITING_BYTES)

    async def _put(self, message: ClientMessage) -> None:
        """Queue a message; sound joins the sound that waits."""
        async with self._changed:
            last = self._messages[-1] if self._messages else None
            joins = last is not None and last.kind == message.kind == APPEND
            if last is not None and joins and len(last.sound) < _PIECE_BYTES:
                last.sound += message.sound
                last.n_bytes += message.n_bytes
            else:
                self._messages.append(message)
            self._changed.notify_all()

    async def _process_messages(self) -> None:
        await self._send_session("created")
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._messages)
                message = self._messages.popleft()
            if message.kind == _FINISH:
                break
            try:
                await self._send_all(self._items.process(message))
                if message.kind == UPDATE:
                    self._use_model()
                    await self._send_session("updated")
            except ClientDisconnectedError:
                raise
            except WhisperHailoError as error:
                self._service.metrics.count_failure(error)
                await self._send(error_event(error, message.event_id))
            async with self._changed:
                self._stored.take(-message.n_bytes)
                self._changed.notify_all()
        await self._send_all(self._items.finish())

    def _use_model(self) -> None:
        """Keep the model of the session loaded as long as the session uses it."""
        model = self._service.find_model(self._items.settings.input.transcription.model)
        if model is not self._model:
            self._model_in_use.close()
            self._model = model
            self._model_in_use.enter_context(model.queue.count_live_stream())

    async def _send_all(self, events: Iterator[ServerEvent]) -> None:
        async for event in iterate_on_thread(events, self._items.leave, self._threads):
            await self._send(event)

    async def _send_session(self, what: str) -> None:
        head = {"id": self._id, "object": "realtime.transcription_session"}
        session = head | self._items.settings.model_dump()
        await self._send({"type": f"session.{what}", "session": session})

    async def _send(self, event: ServerEvent) -> None:
        async with asyncio.timeout(_WRITE_S):
            await self._websocket.send_text(json.dumps({"event_id": _new_id("event"), **event}))


def _new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(10)}"


@dataclass(slots=True)
class _Item:
    """What was said in one go.

    Attributes:
        text: of its segments that are over.
        told: as much of its text as was sent.
        language: code of the last of them.
    """

    item_id: str = field(default_factory=lambda: _new_id("item"))
    text: str = ""
    told: str = ""
    words: list[CaptionWord] = field(default_factory=list)
    seconds: float = 0.0
    language: str = ""
    blank: str = ""

    def event(self, kind: str, **fields: Any) -> ServerEvent:  # noqa: ANN401 - of JSON
        return {"type": kind, "item_id": self.item_id, **fields}


class Items:
    """Transcribes one session; each call's events come as soon as they are known.

    With turns found by the server each segment of speech is an item; otherwise all that comes
    between two commits is one. All but `leave` is called on one thread at a time.
    """

    def __init__(
        self, service: TranscriptionService, caller: Caller, settings: RealtimeSettings
    ) -> None:
        self._service = service
        self._caller = caller
        self._item: _Item | None = None
        self._left = False
        self._previous: str | None = None
        self._sound_s = 0.0  # of the whole session, up to the last sample that came,
        self._begin_s = 0.0  # and where the captioner began
        self._use(settings)

    def process(self, message: ClientMessage) -> Iterator[ServerEvent]:
        """Obey a message; new settings hold when what is being said has ended under the old."""
        if message.error is not None:
            raise message.error
        if message.kind == APPEND:
            yield from self._hear(bytes(message.sound))
        elif message.kind == COMMIT:
            seconds = 0.0 if self._item is None else self._sound_s - self._begin_s
            if seconds < _LEAST_S:
                raise SessionError(
                    f"the buffer holds {seconds * 1000:.0f} ms of sound, expected "
                    f"{_LEAST_S * 1000:g} ms or more; append some before you commit",
                    code="input_audio_buffer_commit_empty",
                )
            yield from self.finish()
        elif message.kind == UPDATE:
            before, settings = self.settings, self.settings.updated(message.changes)
            yield from self.finish()
            try:
                self._use(settings)
            except WhisperHailoError:
                self._use(before)
                raise
        else:
            self._begin()
            yield {"type": _BUFFER + "cleared"}

    def _hear(self, sound: bytes) -> Iterator[ServerEvent]:
        for begin in range(0, len(sound), _PIECE_BYTES):
            if self._left:
                raise ClientDisconnectedError
            piece = sound[begin : begin + _PIECE_BYTES]
            sound_s = self._sound_s + self._sound.seconds_of(len(piece))
            if not self.settings.detects_turns:
                check_duration(sound_s - self._begin_s, self._service.limits.max_audio_s)
                self._item = self._item or _Item()
            self._sound_s = sound_s
            yield from self._guarded(self._captioner.feed(self._sound.push(piece)))

    def finish(self) -> Iterator[ServerEvent]:
        """End what is being said, and begin a new captioner."""
        if self._item is None:
            return
        is_committed = not self.settings.detects_turns
        if is_committed:
            yield from self._committed(self._item)
        yield from self._guarded(self._captioner.feed(self._sound.finish()))
        yield from self._guarded(self._captioner.finish())
        if is_committed and self._item is not None:
            yield self._completed(self._item)
        self._begin()

    def leave(self) -> None:
        """Give up the running work: the client has gone. From any thread."""
        self._left = True
        self._captions.cancel()

    def _use(self, settings: RealtimeSettings) -> None:
        self._captions = self._service.make_live_transcriber(settings.choices, self._caller)
        self.settings = settings
        self._begin()

    def _begin(self) -> None:
        if self._left:
            raise ClientDisconnectedError
        settings = self.settings
        self._sound = sample_stream(settings.input.format.type)
        self._captioner = settings.captioner(self._captions)
        self._begin_s = self._sound_s
        self._item = None

    def _guarded(self, events: Iterator[Event]) -> Iterator[ServerEvent]:
        """Send the captioner's events; its failure is that of the item."""
        try:
            for event in events:
                yield from self._send(event)
        except ClientDisconnectedError:
            raise
        except WhisperHailoError as error:
            self._service.metrics.count_failure(error)
            item = self._item
            if item is None:  # it was completed with what is known
                yield error_event(error, None)
            else:
                if self.settings.detects_turns:
                    yield from self._committed(item, self._sound_s)
                failure = error_body(error)["error"]
                self._note(item, error)
                yield item.event(_TRANSCRIPTION + "failed", content_index=0, error=failure)
            self._begin()

    def _send(self, event: Event) -> Iterator[ServerEvent]:
        item, detects_turns = self._item, self.settings.detects_turns
        if isinstance(event, Started) and detects_turns:
            self._item = _Item()
            start_ms = round((self._begin_s + event.start_s) * 1000)
            yield self._item.event(_BUFFER + "speech_started", audio_start_ms=start_ms)
        elif isinstance(event, Partial) and item is not None:
            yield from self._delta(item, event.committed_text)
        elif isinstance(event, Completed) and item is not None:
            if detects_turns:
                yield from self._committed(item, self._begin_s + event.end_s)
            yield from self._delta(item, event.text)
            item.text = item.told
            item.words += event.words
            item.seconds += event.end_s - event.start_s
            item.language = event.language
            item.blank = "" if event.language in UNSPACED_LANGUAGES or not item.text else " "
            if detects_turns:
                yield self._completed(item)
                self._item = None

    def _committed(self, item: _Item, end_s: float | None = None) -> Iterator[ServerEvent]:
        """Announce an item before its text, and the end of its speech if the server found it."""
        if end_s is not None:
            yield item.event(_BUFFER + "speech_stopped", audio_end_ms=round(end_s * 1000))
        before = {"previous_item_id": self._previous}
        whole = {
            "id": item.item_id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        yield item.event(_BUFFER + "committed", **before)
        for kind in ("added", "done"):
            yield {"type": f"conversation.item.{kind}", **before, "item": whole}
        self._previous = item.item_id

    def _delta(self, item: _Item, text: str) -> Iterator[ServerEvent]:
        """Send what is new in an item's text, whose last segment is this one."""
        whole = item.text + item.blank + text if text else item.told
        new, item.told = whole[len(item.told) :], whole
        if new:
            yield item.event(_TRANSCRIPTION + "delta", content_index=0, delta=new)

    def _completed(self, item: _Item) -> ServerEvent:
        self._note(item)
        usage = {"type": "duration", "seconds": round(item.seconds, 3)}
        told: dict[str, Any] = {"content_index": 0, "transcript": item.told, "usage": usage}
        if self.settings.include:
            told["logprobs"] = word_logprobs(item.words)
        return item.event(_TRANSCRIPTION + "completed", **told)

    def _note(self, item: _Item, failure: Exception | None = None) -> None:
        worker = self._captions.model
        worker.record_item(self._caller, item.seconds, item.language, item.told, failure)
