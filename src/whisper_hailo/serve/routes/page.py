"""The page at `/`, and what it asks: segments as they come, then the files that can be kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from importlib import resources
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Request, Response, UploadFile

from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.serve.http.errors import body_of
from whisper_hailo.serve.http.uploads import Events, UploadHandler, UploadRoute, sse
from whisper_hailo.serve.request import Choices
from whisper_hailo.serve.service import Ticket, TranscriptionService
from whisper_hailo.text.outputs import render

_API: Final = "page"
_FORMATS: Final = ("txt", "srt", "vtt", "json")
_SCRIPT: Final = "text/javascript"
_FILES: Final = {
    "/": ("index.html", "text/html"),
    "/page/page.css": ("page.css", "text/css"),
    "/page/page.js": ("page.js", _SCRIPT),
    "/page/events.js": ("events.js", _SCRIPT),
    "/page/result.js": ("result.js", _SCRIPT),
    "/page/microphone.js": ("microphone.js", _SCRIPT),
    "/page/recorder.js": ("recorder.js", _SCRIPT),
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; worker-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_ABOUT: Final = "/page/about.json"
_BYTES_PER_SECOND: Final = 2 * SAMPLE_RATE_HZ
"""Of what the page records."""

OPEN_TO_ALL: Final = frozenset({*_FILES, _ABOUT})
"""Where a user types an API key."""


def router(service: TranscriptionService) -> APIRouter:
    """The page at `/` with its files, and what it asks for; not in the description."""
    routes, handlers = APIRouter(route_class=UploadRoute, include_in_schema=False), _Routes(service)
    for path in _FILES:
        routes.add_api_route(path, handlers.file)
    routes.add_api_route(_ABOUT, handlers.about)
    routes.add_api_route(
        "/page/transcripts", handlers.transcripts, methods=["POST"], response_model=None
    )
    return routes


class _Routes:
    """Answers requests."""

    def __init__(self, service: TranscriptionService) -> None:
        self._service = service
        self._uploads = UploadHandler(service, _API)

    async def file(self, request: Request) -> Response:
        """One of the page's files."""
        name, kind = _FILES[request.scope["path"]]
        content = resources.files("whisper_hailo.serve").joinpath("page", name).read_bytes()
        return Response(content, media_type=kind, headers=_HEADERS)

    async def about(self, request: Request) -> dict[str, Any]:
        """What the page has to know of the server."""
        limits, models = self._service.limits, self._service.models
        codes = {code for model in models.models for code in model.languages}
        names = sorted((language_name(code), code) for code in codes)
        return {
            "models": [model.name for model in models.models],
            "languages": [(code, name) for name, code in names],
            "key": bool(request.app.state.keys),
            "seconds": min(limits.seconds, limits.bytes / _BYTES_PER_SECOND - 1),
        }

    async def transcripts(
        self,
        *,
        request: Request,
        file: UploadFile,
        model: Annotated[str, Form()] = "",
        language: Annotated[str, Form()] = "",
        task: Annotated[Literal["transcribe", "translate"], Form()] = "transcribe",
    ) -> Response:
        """Segments as server-sent events, each when it is final."""
        choices = Choices(model=model, language=language or None, task=task)
        async with AsyncExitStack() as stack:
            ticket = await stack.enter_async_context(self._uploads.ticket(request, file, choices))
            return Events(_events(ticket), stack.pop_all())
        raise AssertionError  # what the block raises is not kept back


async def _events(ticket: Ticket) -> AsyncIterator[str]:
    yield sse({"type": "begin", "duration": ticket.duration_s})
    try:
        async for segment in ticket.segments():
            times = {"start": segment.start_s, "end": segment.end_s}
            yield sse({"type": "segment", "text": segment.text, **times})
        heard = ticket.transcript
        yield sse(
            {
                "type": "done",
                "language": language_name(heard.language),
                "duration": heard.duration_s,
                "files": {name: render(heard, name) for name in _FORMATS},
            }
        )
    except Exception as error:  # the status is sent already
        yield sse({"type": "error", **body_of(error)})
