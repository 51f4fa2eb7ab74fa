"""`/v1/realtime`, as OpenAI's API has it for transcription: sound in, text out, by WebSocket."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.serve.doors.realtime_session import RealtimeSession
from whisper_hailo.serve.engine import Engine
from whisper_hailo.serve.http.failures import CLIENT, log_refused_request, response_of
from whisper_hailo.serve.request import Caller, Priority

_DOOR: Final = "realtime"
_SUBPROTOCOL: Final = "realtime"
"""What a browser asks for, beside its key: it can send no headers."""

_MOST_THREADS: Final = 1 << 10
"""One for each stream that is heard; how many those are is the engine's to say."""


def router(engine: Engine) -> APIRouter:
    """`/v1/realtime`, a WebSocket, as OpenAI has it for live text."""
    routes = APIRouter()
    routes.add_api_websocket_route("/v1/realtime", _Door(engine).answer)
    return routes


class _Door:
    """Answers connections.

    Args:
        engine: behind it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads: Executor = ThreadPoolExecutor(_MOST_THREADS, "live")

    async def answer(self, websocket: WebSocket) -> None:
        """Serve a connection to its end; one that is turned away gets an answer of HTTP."""
        caller = Caller(websocket.scope[CLIENT], _DOOR, Priority.LIVE)
        try:
            _expect_transcription(self._engine, websocket.query_params)
            with self._engine.live(caller.client):
                session = RealtimeSession(self._engine, caller, websocket, self._threads)
                offered = _SUBPROTOCOL in websocket.scope["subprotocols"]
                await websocket.accept(_SUBPROTOCOL if offered else None)
                await session.run()
        except WhisperHailoError as error:
            self._engine.metrics.failed(error)
            log_refused_request(websocket.scope, error)
            await websocket.send_denial_response(response_of(error))
        except WebSocketDisconnect:
            pass  # before it was answered


def _expect_transcription(engine: Engine, asked: Mapping[str, str]) -> None:
    """Whether it is what this server does.

    Raises:
        OptionError: a conversation.
        UnknownModelError: a model that is not served.
    """
    intent, model = asked.get("intent", "transcription"), asked.get("model")
    if intent != "transcription":
        raise OptionError(f"intent is {intent[:40]!r}, expected transcription")
    if model is not None:
        engine.served.expect(model)
