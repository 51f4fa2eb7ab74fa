"""Routes of captions: the page, its events, and a browser's microphone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import parse_json_object
from whisper_hailo.core.version import __version__
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.stream import Command
from whisper_hailo.serve.access import AccessMiddleware
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.routes.captions.feeds import STILL

if TYPE_CHECKING:
    from whisper_hailo.serve.routes.captions.view import Right, WebView

MOST_BYTES: Final = 1 << 16  # Of a message: two seconds of sound
_FOLDER: Final = resources.files("whisper_hailo.serve.routes.captions").joinpath("page")
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; style-src 'self'"
)
_TRUSTED_TYPES: Final = "; require-trusted-types-for 'script'; trusted-types 'none'"
_OVERLAY_STYLE: Final = " 'unsafe-inline'"
"""OBS puts a user's own CSS into the page as a style element, older ones by its `innerHTML`."""

_BUSY: Final = 1013
_LONGEST_NAME: Final = 64

QUIET_TIMEOUT_S: Final = 10.0  # A page that sends no sound for so long makes room for another

PROTOCOL: Final = 1  # Raised when a message changes its meaning; additions leave it as it is
_MOST_LETTERS: Final = 4096  # of a message of a page
_LONGEST_LABEL: Final = 200
_NOT_UNDERSTOOD, _NOT_ALLOWED, _TOO_LONG = 1003, 1008, 1009

STILL_S: Final = 10.0  # Without an event for so long, a page is sent that the connection lives


def make_caption_app(view: WebView) -> ASGIApp:
    """Return the application: its routes, with the limits of the server's."""

    async def page(request: Request) -> Response:
        name = request.scope["path"].removeprefix("/") or "index.html"
        is_overlay = request.query_params.get("overlay") == "1"
        policy = _POLICY + (_OVERLAY_STYLE if is_overlay else _TRUSTED_TYPES)
        headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
            "Content-Security-Policy": f"{policy}; frame-ancestors {view.place.framed_by}",
        }
        kind = _TYPES[PurePosixPath(name).suffix]
        return Response(_FOLDER.joinpath(name).read_bytes(), media_type=kind, headers=headers)

    async def events(websocket: WebSocket) -> None:
        await EventSocket(view, websocket).run()

    names = ["", *sorted(file.name for file in _FOLDER.iterdir())]
    routes = [
        *(Route(f"/{name}", page) for name in names),
        WebSocketRoute("/events", events),
        WebSocketRoute("/audio", MicrophoneSocket(view).take),
    ]
    return AccessMiddleware(Starlette(routes=routes), hosts=view.place.hosts, quota=Quota())


class MicrophoneSocket:
    """Takes a browser's microphone; one at a time."""

    def __init__(self, view: WebView) -> None:
        self._view = view
        self._is_recording = False
        self._recording = ""  # the page's name of the last one

    async def take(self, websocket: WebSocket) -> None:
        rights = self._view.place.access.rights(websocket.query_params.get("token"))
        if rights is None or "record" not in rights:
            await websocket.close(_NOT_ALLOWED)
            return
        if self._view.browser is None or self._is_recording:
            await websocket.close(_BUSY)
            return
        self._is_recording = True  # before anything is waited for, or two would come in
        try:
            code = await self._record(websocket, self._view.browser)
        except WebSocketDisconnect:
            return
        finally:
            self._is_recording = False  # whether or not the other side agrees to the end
            self._view.broadcast.put_recording(False)
        await websocket.close(code)

    async def _record(self, websocket: WebSocket, browser: BrowserSource) -> int:
        """Take sound for as long as it comes; return the code to close with.

        The page learns whether it continues the last recording: only then may it send what it kept
        while the connection was away.
        """
        await websocket.accept()
        name = websocket.query_params.get("recording", "")[:_LONGEST_NAME]
        await websocket.send_text("again" if name and name == self._recording else "new")
        self._recording = name
        self._view.broadcast.put_recording(True)
        while True:
            try:
                async with asyncio.timeout(QUIET_TIMEOUT_S):
                    raw = await websocket.receive_bytes()
            except TimeoutError:
                return _BUSY
            except KeyError:  # text
                return _NOT_UNDERSTOOD
            lost_s = browser.push(raw)
            if lost_s:
                await asyncio.sleep(lost_s)  # no faster than it is spoken


class EventSocket:
    """Sends events to a page as long as it is open, and processes its commands.

    docs/reference/caption-events.md has every message.
    """

    def __init__(self, view: WebView, websocket: WebSocket) -> None:
        self._view = view
        self._websocket = websocket
        self._may: tuple[Right, ...] = ()
        self._looks = asyncio.Event()

    async def run(self) -> None:
        await self._websocket.accept()
        self._websocket.state.connection.set_idle()  # until it may look
        sides: set[asyncio.Task[int | None]] = set()
        try:
            if not await self._admit(self._websocket.query_params.get("token")):
                await self._websocket.close(_NOT_ALLOWED, "the token is wrong")
                return
            sides = {asyncio.ensure_future(side()) for side in (self._send_events, self._read)}
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            code = done.pop().result()
            if code is not None:
                await self._websocket.close(code)
        except (WebSocketDisconnect, RuntimeError):
            pass  # it went away while something was sent
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)

    async def _admit(self, token: str | None) -> bool:
        """Send the rights that a token gives; return whether it is right, or none."""
        may = self._view.place.access.rights(token)
        if may is None:
            return False
        has_microphone = self._view.browser is not None
        self._may = tuple(right for right in may if right != "record" or has_microphone)
        hello = {"event": "hello", "protocol": PROTOCOL, "version": __version__}
        await self._websocket.send_json({**hello, "may": list(self._may)})
        if "look" in self._may and not self._looks.is_set():
            self._websocket.state.connection.set_busy()
            self._looks.set()
        return True

    async def _send_events(self) -> int:
        """Send events until the last; return the code to close with."""
        await self._looks.wait()
        wake = asyncio.Event()
        client = self._view.broadcast.join(wake.set)
        try:
            while True:
                while (message := client.take()) is not None:
                    await self._websocket.send_json(message)
                    if message["event"] == "end":
                        return 1000
                wake.clear()
                try:
                    async with asyncio.timeout(STILL_S):
                        await wake.wait()
                except TimeoutError:
                    await self._websocket.send_json(STILL)
        finally:
            self._view.broadcast.leave(client)

    async def _read(self) -> int | None:
        """Process messages; return the code to close with, `None` if the page has left."""
        while True:
            received = await self._websocket.receive()
            if received["type"] == "websocket.disconnect":
                return None
            text = received.get("text") or ""
            if len(text) > _MOST_LETTERS:
                return _TOO_LONG
            try:
                message = parse_json_object(text.encode(errors="surrogatepass"))
            except ValueError:
                return _NOT_UNDERSTOOD
            if message.get("type") == "control":
                await self._process(message)
            elif message.get("type") != "token":
                return _NOT_UNDERSTOOD
            elif not await self._admit(str(message.get("token"))):
                return _NOT_ALLOWED

    async def _process(self, message: Mapping[str, Any]) -> None:
        answer = {"event": "answer", "id": message.get("id"), "action": message.get("action")}
        action, controls = str(message.get("action")), self._view.controls
        try:
            if "control" not in self._may:
                raise OptionError("controls need the token that was printed at the start")
            if action in ("pause", "resume"):
                controls.set_paused(action == "pause")
            else:
                await asyncio.wrap_future(controls.submit(_parse_command(action, message)))
        except OptionError as error:
            await self._websocket.send_json({**answer, "ok": False, "error": str(error)})
        else:
            await self._websocket.send_json({**answer, "ok": True})


def _parse_command(action: str, message: Mapping[str, Any]) -> Command:
    if action == "clear":
        return lambda live: live.clear()
    if action == "marker":
        label = message.get("label", "")
        if not isinstance(label, str) or len(label) > _LONGEST_LABEL:
            raise OptionError(
                f"label is {str(label)[:40]!r}, expected a text of {_LONGEST_LABEL} letters at most"
            )
        return lambda live: live.mark(label)
    if action != "language":
        known = "pause, resume, language, marker, clear"
        raise OptionError(f"action is {action!r}, expected one of: {known}")
    if not isinstance(language := message.get("language"), str):
        raise OptionError(f"language is {language!r}, expected a text")
    return lambda live: live.set_language(language)
