"""Routes of monitoring: `/health`, `/ready` and `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from whisper_hailo.core.version import __version__
from whisper_hailo.serve.served_model import ModelState
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.uploads import TEXT, describe_answers


def health_router(service: TranscriptionService) -> APIRouter:
    """Return `/health`, `/ready` and `/metrics`."""
    router = APIRouter(tags=["operations"])

    @router.get("/health", summary="Whether the process runs")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @router.get("/ready", summary="Whether requests are accepted")
    async def ready() -> JSONResponse:
        # A model that was released is loaded again by the next request.
        is_ready = service.state in (ModelState.READY, ModelState.RELEASED)
        models = {model.name: model.state.value for model in service.models}
        body = {"status": service.state.value, "models": models}
        return JSONResponse(body, 200 if is_ready else 503)

    @router.get(
        "/metrics",
        summary="Metrics for Prometheus",
        response_model=None,
        responses=describe_answers(TEXT),
    )
    async def metrics() -> Response:
        return Response(service.metrics.render_page(), media_type=CONTENT_TYPE_LATEST)

    return router
