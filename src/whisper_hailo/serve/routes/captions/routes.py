"""Routes of the caption page: its files, its events, and a browser's microphone."""

from __future__ import annotations

from importlib import resources
from pathlib import PurePosixPath
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from whisper_hailo.serve.access import AccessMiddleware
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.routes.captions.event_socket import EventSocket
from whisper_hailo.serve.routes.captions.microphone_socket import MicrophoneSocket
from whisper_hailo.serve.routes.captions.page_state import PageState

MAX_MESSAGE_BYTES: Final = 1 << 16  # two seconds of sound

_FOLDER: Final = resources.files("whisper_hailo.serve.routes.captions").joinpath("page")
_MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; style-src 'self'"
)
_TRUSTED_TYPES: Final = "; require-trusted-types-for 'script'; trusted-types 'none'"
_OVERLAY_STYLE: Final = " 'unsafe-inline'"
"""OBS puts a user's own CSS into the page as a style element, older ones by its `innerHTML`."""


def make_caption_app(page: PageState) -> ASGIApp:
    """Return the application: its routes, with the limits of the server's."""

    async def file(request: Request) -> Response:
        name = request.scope["path"].removeprefix("/") or "index.html"
        is_overlay = request.query_params.get("overlay") == "1"
        headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
            "Content-Security-Policy": _format_policy(page, is_overlay=is_overlay),
        }
        content = _FOLDER.joinpath(name).read_bytes()
        media_type = _MEDIA_TYPES[PurePosixPath(name).suffix]
        return Response(content, media_type=media_type, headers=headers)

    async def events(websocket: WebSocket) -> None:
        await EventSocket(page, websocket).run()

    names = ["", *sorted(file.name for file in _FOLDER.iterdir())]
    routes: list[BaseRoute] = [Route(f"/{name}", file) for name in names]
    routes.append(WebSocketRoute("/events", events))
    routes.append(WebSocketRoute("/audio", MicrophoneSocket(page).serve))
    app = Starlette(routes=routes)
    return AccessMiddleware(app, hosts=page.address.hosts, quota=Quota())


def _format_policy(page: PageState, *, is_overlay: bool) -> str:
    """Return the Content Security Policy of the page."""
    policy = _POLICY + (_OVERLAY_STYLE if is_overlay else _TRUSTED_TYPES)
    return f"{policy}; frame-ancestors {page.address.frame_ancestors}"
