"""Realtime sessions: `/v1/realtime` of OpenAI's API, sound in and text out by WebSocket."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, Final

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.http.connections import Connection
from whisper_hailo.serve.access import CLIENT, log_refused_request, response_of
from whisper_hailo.serve.errors import BusyError, ClientDisconnectedError
from whisper_hailo.serve.quota import Reservation
from whisper_hailo.serve.request import Caller, Priority
from whisper_hailo.serve.routes.realtime.items import Items, ServerEvent, new_id
from whisper_hailo.serve.routes.realtime.protocol import (
    APPEND,
    COMMIT,
    UPDATE,
    ClientMessage,
    RealtimeSettings,
    error_event,
    parse_message,
)
from whisper_hailo.serve.service import TranscriptionService, each_on_thread

logger = logging.getLogger(__name__)

_WAITING_BYTES: Final = 4 << 20
"""When so much is not heard yet, the next message is not read."""

_PIECE_BYTES: Final = 256 << 10
"""Sound is heard in pieces of about this size; in between text comes, and clients leave."""

_LOOK_S: Final = 1.0
"""How often a client that is not read is looked after."""

IDLE_S: Final = 600.0
"""So long a client may be silent."""

_WRITE_S: Final = 30.0
"""How long it may leave messages unread."""

_GONE, _INTERNAL, _RESTART = 1001, 1011, 1012
_FINISH: Final = ClientMessage("")


def _pieces(order: ClientMessage) -> Iterator[ClientMessage]:
    """Split an order with much sound; its pieces take as many bytes together."""
    sound = order.sound
    if len(sound) <= _PIECE_BYTES:
        yield order
        return
    left = order.n_bytes
    for begin in range(0, len(sound), _PIECE_BYTES):
        piece = sound[begin : begin + _PIECE_BYTES]
        n_bytes = len(piece) if begin + len(piece) < len(sound) else left
        left -= n_bytes
        yield ClientMessage(order.kind, order.event_id, n_bytes, piece)


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
        self._id = new_id("sess")
        self._items = Items(service, caller, RealtimeSettings.of(model))
        self._model_in_use = ExitStack()
        self._orders: deque[ClientMessage] = deque()
        self._stored = Reservation(service.quota)  # for what waits
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Answer until the client leaves, or the server ends."""
        speaking = asyncio.ensure_future(self._speak())
        reading = asyncio.ensure_future(self._read())
        ending = asyncio.ensure_future(self._service.ending.wait())
        code: int | None = None
        self._use_model()
        try:
            await asyncio.wait({speaking, reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done() and not (reading.done() or speaking.done()):
                reading.cancel()
                self._orders.append(_FINISH)
                await self._wake()
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
            self._service.metrics.failed(error)
            logger.exception("a realtime session failed")
        finally:
            self._items.leave()
            for task in (speaking, reading, ending):
                task.cancel()
            await asyncio.gather(speaking, reading, ending, return_exceptions=True)
            self._orders.clear()
            self._stored.release()
            self._model_in_use.close()
        if code is not None:
            with suppress(WebSocketDisconnect, RuntimeError, OSError):  # it has left meanwhile
                async with asyncio.timeout(_WRITE_S):
                    await self._websocket.close(code)

    async def _read(self) -> bool:
        """Queue messages; return whether the client is still there, and silent."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    message = await self._websocket.receive()
            except TimeoutError:
                return True
            if message["type"] != "websocket.receive":
                return False
            order = parse_message(message.get("text"))
            try:
                self._stored.take(order.n_bytes)
            except BusyError as error:
                order = ClientMessage("", order.event_id, wrong=error)
            async with self._changed:
                self._orders.extend(_pieces(order))
                self._changed.notify_all()
            del message, order
            if not await self._wait_until_heard():
                return False

    async def _wait_until_heard(self) -> bool:
        """Wait until less is waiting; return whether the client is still there.

        uvicorn reads nothing from the connection meanwhile, so its end would not be noticed.
        """
        connection: Connection | None = getattr(self._websocket.state, "connection", None)
        while self._stored.n_bytes >= _WAITING_BYTES:
            if connection is not None and connection.is_closed_by_peer:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S), self._changed:
                    await self._changed.wait_for(lambda: self._stored.n_bytes < _WAITING_BYTES)
        return True

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _next(self) -> ClientMessage:
        """Return the next message, joining sound that waits."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._orders)
            first = self._orders.popleft()
            taken, n_bytes = [first], len(first.sound)
            while first.kind == APPEND and n_bytes < _PIECE_BYTES:
                if not self._orders or self._orders[0].kind != APPEND:
                    break
                taken.append(self._orders.popleft())
                n_bytes += len(taken[-1].sound)
            self._stored.take(-sum(order.n_bytes for order in taken))
            self._changed.notify_all()
        if len(taken) == 1:
            return first
        return ClientMessage(APPEND, first.event_id, sound=b"".join(order.sound for order in taken))

    async def _speak(self) -> None:
        """Process messages and send the events that they cause."""
        await self._send({"type": "session.created", "session": self._session()})
        while (order := await self._next()) is not _FINISH:
            try:
                await self._do(order)
            except ClientDisconnectedError:
                raise
            except WhisperHailoError as error:
                self._service.metrics.failed(error)
                await self._send(error_event(error, order.event_id))
        await self._send_all(self._items.finish())

    async def _do(self, order: ClientMessage) -> None:
        if order.wrong is not None:
            raise order.wrong
        if order.kind == APPEND:
            await self._send_all(self._items.hear(order.sound))
        elif order.kind == COMMIT:
            await self._send_all(self._items.commit())
        elif order.kind == UPDATE:
            settings = self._items.settings.updated(order.changes or {})
            await self._send_all(self._items.update(settings))
            self._use_model()
            await self._send({"type": "session.updated", "session": self._session()})
        else:
            await self._send_all(self._items.clear())

    def _use_model(self) -> None:
        """Keep the model of the session loaded as long as the session uses it."""
        self._model_in_use.close()
        model = self._service.models.find(self._items.settings.input.transcription.model)
        self._model_in_use.enter_context(model.worker.queue.live())

    async def _send_all(self, events: Iterator[ServerEvent]) -> None:
        async for event in each_on_thread(events, self._items.leave, self._threads):
            await self._send(event)

    async def _send(self, event: ServerEvent) -> None:
        async with asyncio.timeout(_WRITE_S):
            await self._websocket.send_text(json.dumps({"event_id": new_id("event"), **event}))

    def _session(self) -> dict[str, Any]:
        head = {"id": self._id, "object": "realtime.transcription_session"}
        return head | self._items.settings.model_dump()


_API: Final = "realtime"
_SUBPROTOCOL: Final = "realtime"
"""What a browser asks for, beside its key: it can send no headers."""

_MOST_THREADS: Final = 1 << 10
"""One for each stream that is heard; how many those are is the engine's to say."""


def router(service: TranscriptionService) -> APIRouter:
    """`/v1/realtime`, a WebSocket, as OpenAI has it for live text."""
    routes = APIRouter()
    routes.add_api_websocket_route("/v1/realtime", _Routes(service).answer)
    return routes


class _Routes:
    """Answers connections."""

    def __init__(self, service: TranscriptionService) -> None:
        self._service = service
        self._threads: Executor = ThreadPoolExecutor(_MOST_THREADS, "live")

    async def answer(self, websocket: WebSocket) -> None:
        """Serve a connection to its end; one that is turned away gets an answer of HTTP."""
        caller = Caller(websocket.scope[CLIENT], _API, Priority.LIVE)
        try:
            model = _asked_model(self._service, websocket.query_params)
            with self._service.live(caller.client):
                session = RealtimeSession(self._service, caller, websocket, self._threads, model)
                offered = _SUBPROTOCOL in websocket.scope["subprotocols"]
                await websocket.accept(_SUBPROTOCOL if offered else None)
                await session.run()
        except WhisperHailoError as error:
            self._service.metrics.failed(error)
            log_refused_request(websocket.scope, error)
            await websocket.send_denial_response(response_of(error))
        except WebSocketDisconnect:
            pass  # before it was answered


def _asked_model(service: TranscriptionService, asked: Mapping[str, str]) -> str:
    """Return the name of the model that a query asks for."""
    intent, model = asked.get("intent", "transcription"), asked.get("model")
    if intent != "transcription":
        raise OptionError(f"intent is {intent[:40]!r}, expected transcription")
    found = service.models.find(model)
    return model or found.name
