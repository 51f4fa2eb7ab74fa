"""A realtime session: reads a client's messages, and sends the events that answer them."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from enum import Enum, auto
from typing import Final

from fastapi import WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.http.connections import Connection
from whisper_hailo.serve.concurrency import iterate_on_thread
from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.request import Caller
from whisper_hailo.serve.routes.realtime.items import ItemTranscriber
from whisper_hailo.serve.routes.realtime.message_queue import MessageQueue
from whisper_hailo.serve.routes.realtime.protocol import (
    ClientMessage,
    MessageKind,
    ServerEvent,
    error_event,
    parse_message,
)
from whisper_hailo.serve.routes.realtime.settings import RealtimeSettings
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.serve.service import TranscriptionService

logger = logging.getLogger(__name__)

IDLE_TIMEOUT_S: Final = 600.0  # for a client that sends nothing
_POLL_S: Final = (
    1.0  # between checks that a client is there while nothing is read from it
)
_WRITE_TIMEOUT_S: Final = 30.0  # for a client that does not read what it is sent


class SessionEnd(Enum):
    """Why a session ended."""

    CLIENT_LEFT = auto()
    CLIENT_IDLE = auto()
    SERVER_ENDING = auto()
    FAULT = auto()


_CLOSE_CODES: Final = {
    SessionEnd.CLIENT_IDLE: 1001,
    SessionEnd.SERVER_ENDING: 1012,
    SessionEnd.FAULT: 1011,
}
"""Codes of RFC 6455; a client that left gets none."""


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
        self._id = f"sess_{secrets.token_hex(10)}"
        self._items = ItemTranscriber(
            service, caller, RealtimeSettings.for_model(model)
        )
        self._messages = MessageQueue(service.quota)
        self._model: ServedModel | None = None
        self._model_in_use = ExitStack()

    async def run(self) -> None:
        """Answer until the client leaves, or the server ends."""
        processing = asyncio.create_task(self._process_messages())
        reading = asyncio.create_task(self._read_messages())
        ending = asyncio.create_task(self._service.ending.wait())
        self._use_model()
        try:
            await asyncio.wait(
                {processing, reading, ending}, return_when=asyncio.FIRST_COMPLETED
            )
            if processing.done():
                end = self._end_of(processing.exception())
            elif reading.done():
                error = reading.exception()
                end = reading.result() if error is None else self._end_of(error)
            else:
                reading.cancel()
                await self._messages.put(ClientMessage(MessageKind.FINISH))
                await asyncio.wait({processing})
                end = self._end_of(processing.exception(), SessionEnd.SERVER_ENDING)
        finally:
            self._items.cancel()
            for task in (processing, reading, ending):
                task.cancel()
            await asyncio.gather(processing, reading, ending, return_exceptions=True)
            self._items.close()
            self._messages.close()
            self._model_in_use.close()
        await self._close_websocket(end)

    def _end_of(
        self, error: BaseException | None, expected: SessionEnd = SessionEnd.CLIENT_LEFT
    ) -> SessionEnd:
        """Return why a session ended by the error that ended its processing, if one did.

        The error is not raised: its traceback would hold the frame of `run`, which holds the task
        that holds the error, and all that the client sent until the cyclic collector runs.
        """
        if error is None:
            return expected
        # A time-out is an OSError.
        if isinstance(error, ClientDisconnectedError | WebSocketDisconnect | OSError):
            return SessionEnd.CLIENT_LEFT
        if isinstance(error, Exception):
            self._service.metrics.count_failure(error)
        logger.error("a realtime session failed", exc_info=error)
        return SessionEnd.FAULT

    async def _close_websocket(self, end: SessionEnd) -> None:
        """Tell a client that is still there why its session ended."""
        code = _CLOSE_CODES.get(end)
        if code is None:
            return
        # It has left meanwhile.
        with suppress(WebSocketDisconnect, RuntimeError, OSError):
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await self._websocket.close(code)

    async def _read_messages(self) -> SessionEnd:
        """Queue messages until no more come; return why."""
        connection: Connection | None = getattr(
            self._websocket.state, "connection", None
        )
        while True:
            try:
                async with asyncio.timeout(IDLE_TIMEOUT_S):
                    received = await self._websocket.receive()
            except TimeoutError:
                return SessionEnd.CLIENT_IDLE
            if received["type"] != "websocket.receive":
                return SessionEnd.CLIENT_LEFT
            await self._messages.put(parse_message(received.get("text")))
            del received  # up to 21 MiB, which nobody counts while this waits for room
            while self._messages.is_full:
                # uvicorn reads nothing meanwhile, and does not notice that the client leaves.
                if connection is not None and connection.is_closed_by_peer:
                    return SessionEnd.CLIENT_LEFT
                await self._messages.wait_for_room(_POLL_S)

    async def _process_messages(self) -> None:
        """Answer messages in their order until the one that the server ends."""
        await self._send_session("created")
        while True:
            message = await self._messages.get()
            if message.kind is MessageKind.FINISH:
                break
            try:
                await self._process_message(message)
            except ClientDisconnectedError:
                raise
            except WhisperHailoError as error:
                self._service.metrics.count_failure(error)
                await self._send_event(error_event(error, message.event_id))
            await self._messages.free(message)
        await self._send_events(self._items.finish())

    async def _process_message(self, message: ClientMessage) -> None:
        await self._send_events(self._items.process_message(message))
        if message.kind is MessageKind.UPDATE:
            self._use_model()
            await self._send_session("updated")

    def _use_model(self) -> None:
        """Keep the model of the session loaded as long as the session uses it."""
        model = self._service.find_model(self._items.settings.input.transcription.model)
        if model is not self._model:
            self._model_in_use.close()
            self._model = model
            self._model_in_use.enter_context(model.queue.count_live_stream())

    async def _send_events(self, events: Iterator[ServerEvent]) -> None:
        async for event in iterate_on_thread(events, self._items.cancel, self._threads):
            await self._send_event(event)

    async def _send_session(self, change: str) -> None:
        head = {"id": self._id, "object": "realtime.transcription_session"}
        session = head | self._items.settings.model_dump()
        await self._send_event({"type": f"session.{change}", "session": session})

    async def _send_event(self, event: ServerEvent) -> None:
        event_id = f"event_{secrets.token_hex(10)}"
        async with asyncio.timeout(_WRITE_TIMEOUT_S):
            await self._websocket.send_text(json.dumps({"event_id": event_id, **event}))
