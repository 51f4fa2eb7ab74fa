"""The route `/v1/realtime`, which admits sessions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.serve.access import CLIENT, refuse
from whisper_hailo.serve.request import Caller, Priority
from whisper_hailo.serve.routes.realtime.session import RealtimeSession
from whisper_hailo.serve.service import TranscriptionService

_MAX_THREADS: Final = 1 << 10
"""One for each live stream; the quota limits how many there are."""

_API: Final = "realtime"
"""Also the subprotocol that a browser asks for beside its key, since it can send no headers."""


def realtime_router(service: TranscriptionService) -> APIRouter:
    """Return `/v1/realtime`, a WebSocket, as OpenAI has it for live text."""
    router = APIRouter()
    threads = ThreadPoolExecutor(_MAX_THREADS, "live")

    @router.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket) -> None:
        """Serve a connection to its end; one that is refused gets an HTTP answer."""
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
                is_offered = _API in websocket.scope["subprotocols"]
                await websocket.accept(_API if is_offered else None)
                await session.run()
        except WhisperHailoError as error:
            answer = refuse(websocket.scope, error, service.metrics)
            await websocket.send_denial_response(answer)
        except WebSocketDisconnect:
            pass  # it left before it was accepted

    return router
