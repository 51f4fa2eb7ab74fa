"""The HTTP application: all its routes, behind the guard."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from whisper_hailo.core.version import __version__
from whisper_hailo.http.hosts import Hosts
from whisper_hailo.serve.api_keys import ApiKeys
from whisper_hailo.serve.http.access import AccessMiddleware, TrustedProxies
from whisper_hailo.serve.http.errors import answer_failures
from whisper_hailo.serve.http.uploads import RESPONSES
from whisper_hailo.serve.options import Address, LimitOptions, SafetyOptions
from whisper_hailo.serve.routes import api_docs, health, media, page
from whisper_hailo.serve.routes.openai import transcriptions
from whisper_hailo.serve.routes.realtime import session as realtime
from whisper_hailo.serve.service import TranscriptionService

_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""Nothing is sent anywhere, whatever the environment says."""

ROUTERS = (
    health.router,
    transcriptions.router,
    realtime.router,
    media.router,
    api_docs.router,
    page.router,
)
"""A further API is a file with a function like these, and a name here."""


def make_app(
    service: TranscriptionService,
    address: Address,
    limits: LimitOptions,
    safety: SafetyOptions,
    keys: ApiKeys | None = None,
) -> ASGIApp:
    """The application.

    Args:
        service: transcribes for all routes.
        address: where it is served.
        limits: of what one client may ask.
        safety: who may ask.
        keys: those of `safety`, if somebody else reloads them.
    """
    app = FastAPI(
        title="whisper-hailo",
        version=__version__,
        description="Whisper speech-to-text, in OpenAI's words and those of others.",
        docs_url=None,  # its page is fetched from a foreign server; `operations` has one of its own
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        responses=RESPONSES,
    )
    keys = ApiKeys(safety) if keys is None else keys
    app.state.metrics, app.state.keys = service.metrics, keys
    answer_failures(app)
    for router in ROUTERS:
        app.include_router(router(service))
    guarded = AccessMiddleware(
        app,
        hosts=Hosts.of(address.host, safety.allow_host, "--allow-host"),
        origins=safety.allow_origin,
        keys=keys,
        open_to_all=page.OPEN_TO_ALL,
        max_bytes=limits.max_upload_mib << 20,
        quota=service.quota,
        admit=service.admit,
        on_refusal=service.metrics.failed,
    )
    served: ASGIApp = guarded
    if safety.allow_origin:
        served = CORSMiddleware(
            guarded,
            allow_origins=safety.allow_origin,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return TrustedProxies(served, safety.proxies) if safety.proxies else served
