"""The HTTP application: its routes, behind the access middleware, and pages of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import resources
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, FastAPI, Form, Request, Response, UploadFile
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Transcript
from whisper_hailo.core.version import __version__
from whisper_hailo.http.addresses import Hosts
from whisper_hailo.serve.access import AccessMiddleware, answer_failures, body_of
from whisper_hailo.serve.options import SafetyOptions
from whisper_hailo.serve.request import Choices
from whisper_hailo.serve.routes import realtime, recordings
from whisper_hailo.serve.served_model import ModelState
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket
from whisper_hailo.serve.uploads import TEXT, EventStream, UploadHandler, UploadRoute, answers, sse
from whisper_hailo.text.formats import FORMATS, render

_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False,
    "auto_configure": False,
}  # fmt: skip
"""Nothing is sent anywhere, whatever the environment says."""


def make_app(service: TranscriptionService, host: str, safety: SafetyOptions) -> ASGIApp:
    """Return the application of a service that is served at an address or a name."""
    app = FastAPI(
        title="whisper-hailo",
        version=__version__,
        description="Whisper speech-to-text, in OpenAI's words and those of others.",
        docs_url=None,  # FastAPI's own page is fetched from a foreign server
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        responses={"4XX": {"description": "Refused"}, "5XX": {"description": "Not possible now"}},
    )
    keys = safety.keys()
    answer_failures(app, service.metrics)
    app.include_router(health_router(service))
    app.include_router(recordings.openai_router(service))
    app.include_router(realtime.router(service))
    app.include_router(recordings.media_router(service))
    app.include_router(page_router(service, needs_key=bool(keys)))
    served: ASGIApp = AccessMiddleware(
        app,
        hosts=Hosts(host, safety.allow_host, "--allow-host"),
        origins=safety.allow_origin,
        keys=keys,
        open_to_all=OPEN_TO_ALL,
        max_bytes=service.limits.max_upload_bytes,
        quota=service.quota,
        metrics=service.metrics,
    )
    if safety.allow_origin:
        served = CORSMiddleware(
            served,
            allow_origins=safety.allow_origin,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    if safety.proxies:
        trusted = [str(network) for network in safety.proxies]
        served = ProxyHeadersMiddleware(served, trusted)  # type: ignore[arg-type,assignment]
    return served


def health_router(service: TranscriptionService) -> APIRouter:
    """Return `/health`, `/ready` and `/metrics`."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/health", summary="Whether the program lives")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @routes.get("/ready", summary="Whether requests are taken")
    async def ready() -> JSONResponse:
        is_ready = service.state in (ModelState.READY, ModelState.RELEASED)
        models = {model.name: model.state.value for model in service.models}
        body = {"status": service.state.value, "models": models}
        return JSONResponse(body, 200 if is_ready else 503)

    @routes.get("/metrics", summary="For Prometheus", response_model=None, responses=answers(TEXT))
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type=CONTENT_TYPE_LATEST)

    return routes


_FOLDER: Final = resources.files("whisper_hailo.serve").joinpath("page")
_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_FILES: Final = {f"/page/{file.name}": file.name for file in _FOLDER.iterdir()} | {
    "/": "index.html"
}
_ABOUT: Final = "/page/about.json"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; worker-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_NOT_SAVED_AS: Final = ("tsv",)  # it is for programs, which ask another route
_BYTES_PER_SECOND: Final = 2 * SAMPLE_RATE_HZ  # of the page's recordings

OPEN_TO_ALL: Final = frozenset({*_FILES, _ABOUT})  # Where a user types an API key


def page_router(service: TranscriptionService, *, needs_key: bool) -> APIRouter:
    """Return the page at `/` and what it asks for; not in the description."""
    routes = APIRouter(route_class=UploadRoute, include_in_schema=False)
    uploads = UploadHandler(service, "page")

    async def file(request: Request) -> Response:
        name = _FILES[request.scope["path"]]
        content, kind = _FOLDER.joinpath(name).read_bytes(), _TYPES[name.rpartition(".")[2]]
        return Response(content, media_type=kind, headers=_HEADERS)

    for path in _FILES:
        routes.add_api_route(path, file)

    @routes.get(_ABOUT)
    async def about() -> dict[str, Any]:
        limits = service.limits
        codes = {code for model in service.models for code in model.languages}
        names = sorted((language_name(code), code) for code in codes)
        return {
            "models": [model.name for model in service.models],
            "languages": [(code, name) for name, code in names],
            "key": needs_key,
            "seconds": min(limits.max_audio_s, limits.max_upload_bytes / _BYTES_PER_SECOND - 1),
        }

    @routes.post("/page/transcripts", response_model=None)
    async def transcripts(
        *,
        request: Request,
        file: UploadFile,
        model: Annotated[str, Form()] = "",
        language: Annotated[str, Form()] = "",
        task: Annotated[Literal["transcribe", "translate"], Form()] = "transcribe",
    ) -> Response:
        choices = Choices(model=model, language=language or None, task=task)
        ticket = await uploads.begin(request, file, choices)
        return EventStream(_page_events(ticket), ticket)

    return routes


def _render_files(transcript: Transcript) -> list[dict[str, str]]:
    """Return the files that the page offers, with the names of their formats."""
    return [
        {
            "suffix": name,
            "label": entry.label,
            "media_type": entry.media_type,
            "text": render(transcript, name),
        }
        for name, entry in FORMATS.items()
        if name not in _NOT_SAVED_AS
    ]


async def _page_events(ticket: Ticket) -> AsyncIterator[str]:
    """Yield each segment when it is final, then the files that can be saved."""
    yield sse({"type": "begin", "duration": ticket.duration_s})
    try:
        async for segment in ticket.segments():
            times = {"start": segment.start_s, "end": segment.end_s}
            yield sse({"type": "segment", "text": segment.text, **times})
        transcript = ticket.transcript
        yield sse(
            {
                "type": "done",
                "language": language_name(transcript.language),
                "duration": transcript.duration_s,
                "files": _render_files(transcript),
            }
        )
    except Exception as error:  # the status is sent already
        yield sse({"type": "error", **body_of(error)})
