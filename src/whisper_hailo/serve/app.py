"""The HTTP application: all routes, behind the access middleware."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from whisper_hailo.core.version import __version__
from whisper_hailo.http.addresses import Hosts
from whisper_hailo.serve.access import AccessMiddleware, answer_failures
from whisper_hailo.serve.options import SafetyOptions
from whisper_hailo.serve.routes.health import health_router
from whisper_hailo.serve.routes.media import media_router
from whisper_hailo.serve.routes.openai import openai_router
from whisper_hailo.serve.routes.page import PUBLIC_PATHS, page_router
from whisper_hailo.serve.routes.realtime.router import realtime_router
from whisper_hailo.serve.service import TranscriptionService

_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""Nothing is sent anywhere, whatever the environment says."""


def make_app(
    service: TranscriptionService,
    host: str,
    safety: SafetyOptions,
    keys: Collection[str] | None = None,
) -> ASGIApp:
    """Return the application of a service that is served at an address or a name.

    The collection of `keys` may change meanwhile; by default they are those of `safety`.
    """
    app = FastAPI(
        title="whisper-hailo",
        version=__version__,
        description="Whisper speech-to-text with the APIs of OpenAI and of media servers.",
        docs_url=None,  # FastAPI's own page loads scripts from a foreign server
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        responses={
            "4XX": {"description": "Refused"},
            "5XX": {"description": "Not possible now"},
        },
    )
    if keys is None:
        keys = safety.keys()
    answer_failures(app, service.metrics)
    app.include_router(health_router(service))
    app.include_router(openai_router(service))
    app.include_router(realtime_router(service))
    app.include_router(media_router(service))
    app.include_router(page_router(service, needs_key=bool(keys)))
    # The outermost middleware comes last: a proxy's client is known before its access is checked.
    wrapped: ASGIApp = AccessMiddleware(
        app,
        hosts=Hosts(host, safety.allow_host, "--allow-host"),
        origins=safety.allow_origin,
        keys=keys,
        open_to_all=PUBLIC_PATHS,
        max_bytes=service.limits.max_upload_bytes,
        quota=service.quota,
        metrics=service.metrics,
    )
    if safety.allow_origin:
        wrapped = CORSMiddleware(
            wrapped,
            allow_origins=safety.allow_origin,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    if safety.proxies:
        proxies = [str(network) for network in safety.proxies]
        wrapped = ProxyHeadersMiddleware(wrapped, proxies)  # type: ignore[arg-type,assignment]
    return wrapped
