"""Routes of captions: the page, its events, a browser's microphone, and subtitles for players."""

from __future__ import annotations

import asyncio
from importlib import resources
from pathlib import PurePosixPath
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from whisper_hailo.http.hosts import Hosts
from whisper_hailo.live.controls import Controls
from whisper_hailo.live.sources.pcm import BrowserSource
from whisper_hailo.serve.http.access import AccessMiddleware
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.routes.captions.access import Access
from whisper_hailo.serve.routes.captions.broadcast import Broadcast
from whisper_hailo.serve.routes.captions.events import NOT_ALLOWED, NOT_UNDERSTOOD, Watcher
from whisper_hailo.serve.routes.captions.hls import MediaSegments

MOST_BYTES: Final = 1 << 16
"""Of a message: two seconds of sound."""

_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'; frame-ancestors "
)
"""Nothing of others, and no text that becomes code."""

_OVERLAY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "
)
"""OBS puts a user's own CSS into the page as a style element, older ones by its `innerHTML`."""

_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_PLAYLIST: Final = "application/vnd.apple.mpegurl"
_BUSY: Final = 1013
_LONGEST_NAME: Final = 64

_QUIET_S: Final = 10.0
"""Who sends no sound for so long does not record and makes room for another."""


def make_caption_app(pages: CaptionRoutes, hosts: Hosts) -> ASGIApp:
    """Return the application: its routes, with the limits of the server's."""
    quota = Quota()
    return AccessMiddleware(
        Starlette(routes=pages.routes()),
        hosts=hosts,
        quota=quota,
        admit=quota.request,
        on_refusal=lambda _: None,
    )


class CaptionRoutes:
    """Answers requests for captions.

    Args:
        broadcast: of the events.
        browser: where a browser's microphone goes, if it may be used.
        access: who may do what.
        controls: of the captions.
        pieces: of the captions, for players.
        framed_by: whose pages may show it in theirs, as `frame_ancestors` says it.
    """

    def __init__(
        self,
        broadcast: Broadcast,
        *,
        browser: BrowserSource | None,
        access: Access,
        controls: Controls,
        pieces: MediaSegments,
        framed_by: str,
    ) -> None:
        self._broadcast = broadcast
        self._browser = browser
        self._access = access
        self._controls = controls
        self._pieces = pieces
        self._recording = False
        self._recorded = ""  # what the page calls the recording that was heard last
        self._framed_by = framed_by
        self._folder = resources.files("whisper_hailo.serve.routes.captions").joinpath("page")

    def routes(self) -> list[BaseRoute]:
        """Return all routes."""
        names = sorted(file.name for file in self._folder.iterdir())
        return [
            Route("/", self._page),
            *(Route(f"/{name}", self._page) for name in names),
            Route("/captions.m3u8", self._playlist),
            Route("/captions/{number:int}.vtt", self._piece),
            WebSocketRoute("/events", self._events),
            WebSocketRoute("/audio", self._audio),
        ]

    async def _page(self, request: Request) -> Response:
        name = request.scope["path"].removeprefix("/") or "index.html"
        content = self._folder.joinpath(name).read_bytes()
        kind = _TYPES[PurePosixPath(name).suffix]
        is_overlay = request.query_params.get("overlay") == "1"
        policy = (_OVERLAY_POLICY if is_overlay else _POLICY) + self._framed_by
        headers = {**_HEADERS, "Content-Security-Policy": policy}
        return Response(content, media_type=kind, headers=headers)

    async def _playlist(self, request: Request) -> Response:
        if not self._may_look(request):
            return PlainTextResponse("captions need the token: /captions.m3u8?token=...", 403)
        query = request.url.query
        text = self._pieces.playlist(f"?{query}" if query else "")
        return PlainTextResponse(text, media_type=_PLAYLIST, headers=_HEADERS)

    async def _piece(self, request: Request) -> Response:
        piece = self._pieces.piece(request.path_params["number"])
        if not self._may_look(request) or piece is None:
            return PlainTextResponse("not there, not any more, or not without the token", 404)
        return PlainTextResponse(piece.text(), media_type="text/vtt", headers=_HEADERS)

    def _may_look(self, request: Request) -> bool:
        return "look" in (self._access.rights(request.query_params.get("token")) or ())

    async def _events(self, websocket: WebSocket) -> None:
        """Tell events for as long as the page is open."""
        has_microphone = self._browser is not None
        await Watcher(
            websocket, self._broadcast, self._access, self._controls, has_microphone=has_microphone
        ).run()

    async def _audio(self, websocket: WebSocket) -> None:
        """Take a browser's microphone; one at a time."""
        rights = self._access.rights(websocket.query_params.get("token"))
        if rights is None or "record" not in rights:
            await websocket.close(NOT_ALLOWED)
            return
        if self._browser is None or self._recording:
            await websocket.close(_BUSY)
            return
        self._recording = True  # before anything is waited for, or two would come in
        try:
            code = await self._record(websocket, self._browser)
        except WebSocketDisconnect:
            return
        finally:
            self._recording = False  # whether or not the other side agrees to the end
            self._broadcast.put_recording(False)
        await websocket.close(code)

    async def _record(self, websocket: WebSocket, browser: BrowserSource) -> int:
        """Take sound for as long as it comes; why there is no more.

        The page is told whether it goes on with what was heard last: only then may it send what it
        kept while the connection was away.
        """
        await websocket.accept()
        name = websocket.query_params.get("recording", "")[:_LONGEST_NAME]
        again = bool(name) and name == self._recorded
        self._recorded = name
        await websocket.send_text("again" if again else "new")
        self._broadcast.put_recording(True)
        while True:
            try:
                async with asyncio.timeout(_QUIET_S):
                    raw = await websocket.receive_bytes()
            except TimeoutError:
                return _BUSY
            except KeyError:  # text
                return NOT_UNDERSTOOD
            lost_s = browser.push(raw)
            if lost_s:
                await asyncio.sleep(lost_s)  # no faster than it is spoken
