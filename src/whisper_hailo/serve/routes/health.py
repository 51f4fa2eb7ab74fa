"""For those who watch over the server: is it alive, is it ready, what does it do."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from whisper_hailo.core.version import __version__
from whisper_hailo.serve.http.uploads import TEXT, answers
from whisper_hailo.serve.metrics import CONTENT_TYPE
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.worker import State

_READY: Final = frozenset({State.READY, State.RELEASED})


def router(service: TranscriptionService) -> APIRouter:
    """`/health`, `/ready` and `/metrics`, for those who watch over the server."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/health", summary="Whether the program lives")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @routes.get("/ready", summary="Whether requests are taken")
    async def ready() -> JSONResponse:
        is_ready = service.state in _READY
        models = {name: state.value for name, state in service.models.states.items()}
        body = {"status": service.state.value, "models": models}
        return JSONResponse(body, 200 if is_ready else 503)

    @routes.get(
        "/metrics",
        summary="For Prometheus",
        response_model=None,
        responses=answers(TEXT),
    )
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type=CONTENT_TYPE)

    return routes
