"""The web page: captions for every browser that looks, over WebSockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.live.browser import BrowserSource
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.hub import Hub, Message
from whisper_hailo.live.statistics import Statistics

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

_FILES: Final = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/recorder.js": ("recorder.js", "text/javascript"),
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_MOST_BYTES: Final = 1 << 16
_WRONG_ORIGIN, _BUSY = 1008, 1013
_END_LOOKS: Final = 20
"""Tenths of a second that pages have to read that the stream is over."""

_CLOSED_S: Final = 60.0
"""No wait is so long; a server that hangs does not keep the program."""


class WebView(Closing):
    """Serves the page on a thread of its own; an event sink for the captioner's thread.

    Args:
        statistics: read after each completed segment.
        host: address to listen at; the default is reached from this machine only.
        port: 0 takes any free one.
        browser: where a browser's microphone is to go, if it may be used.
    """

    def __init__(
        self,
        statistics: Callable[[], Statistics],
        host: str = "127.0.0.1",
        port: int = 8765,
        browser: BrowserSource | None = None,
    ) -> None:
        self._statistics = statistics
        self._host = host
        self._port = port
        self._browser = browser
        self._hub = Hub(browser_microphone=browser is not None)
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._recording = False

    @property
    def address(self) -> str:
        """Where the page is."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/"

    def open(self) -> Self:
        """Listen and serve.

        Raises:
            OptionError: the packages are not installed, or the address cannot be listened at.
        """
        try:
            import starlette  # noqa: F401 - told of here, not at the first page
            import uvicorn
            import websockets  # noqa: F401 - uvicorn speaks WebSocket through it
        except ImportError as error:
            raise OptionError(
                f"--web needs starlette, uvicorn and websockets ({error}); {to_add('web')}"
            ) from error
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
            listener.listen()  # whoever comes before the server is ready waits
        except OSError as error:
            listener.close()
            raise OptionError(
                f"cannot listen at {self.address} ({error.strerror}); give another --web-port"
            ) from error
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app(), log_level="warning", lifespan="off", ws_max_size=_MOST_BYTES
        )
        self._server = uvicorn.Server(config)
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, args=(listener, ready), name="caption-web", daemon=True
        )
        self._thread.start()
        ready.wait()
        return self

    def close(self) -> None:
        """Tell the pages that it is over, and stop."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._end(), loop)
            self._thread.join(_CLOSED_S)

    def put(self, event: Event) -> None:
        """Hand an event to the server's thread."""
        if self._loop is not None:
            figures = self._figures() if isinstance(event, Completed) else None
            self._loop.call_soon_threadsafe(self._hub.put, event, figures)

    def _figures(self) -> Message:
        statistics = self._statistics()
        latencies, figures = statistics.final_latency_s.seconds, statistics.as_json()
        return {
            "final_latency_s": round(latencies[-1], 4) if latencies else None,
            "rtfx": figures["rtfx"],
        }

    def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            ready.set()
            await self._server.serve(sockets=[listener])

        asyncio.run(run())
        listener.close()

    async def _end(self) -> None:
        """Pages that read are told; sockets of those that do not are cut."""
        self._hub.end()
        for _ in range(_END_LOOKS):
            if not self._hub.n_clients:
                break
            await asyncio.sleep(0.1)
        self._server.should_exit = True
        self._server.force_exit = True

    def _app(self) -> Any:  # noqa: ANN401 - an ASGI application
        from starlette.applications import Starlette
        from starlette.routing import Route, WebSocketRoute

        return Starlette(
            routes=[
                *(Route(path, self._page) for path in _FILES),
                WebSocketRoute("/events", self._events),
                WebSocketRoute("/audio", self._audio),
            ]
        )

    async def _page(self, request: Request) -> Response:
        from starlette.responses import Response

        if not self._is_asked_for(request.headers.get("host", "")):
            return Response("ask for this page by its own address", status_code=421)
        name, kind = _FILES[request.url.path]
        content = resources.files("whisper_hailo.live").joinpath("page", name).read_bytes()
        return Response(content, media_type=kind, headers=_HEADERS)

    async def _events(self, websocket: WebSocket) -> None:
        """Send events for as long as the page is open."""
        from starlette.websockets import WebSocketDisconnect

        if not await self._accepted(websocket):
            return
        wake = asyncio.Event()
        client = self._hub.join(wake.set)
        gone = asyncio.ensure_future(_until_gone(websocket))
        try:
            while not gone.done():
                while (message := client.take()) is not None:
                    await websocket.send_json(message)
                    if message["event"] == "end":
                        await websocket.close()
                        return
                wake.clear()
                waiting = asyncio.ensure_future(wake.wait())
                await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        except (WebSocketDisconnect, RuntimeError):
            pass  # it went away while a message was being sent
        finally:
            gone.cancel()
            self._hub.leave(client)

    async def _audio(self, websocket: WebSocket) -> None:
        """Take a browser's microphone; one at a time."""
        from starlette.websockets import WebSocketDisconnect

        if self._browser is None or self._recording:
            await websocket.close(_BUSY)
            return
        self._recording = True  # before anything is waited for, or two would come in
        try:
            if not await self._accepted(websocket):
                return
            while True:
                self._browser.push(await websocket.receive_bytes())
        except (WebSocketDisconnect, KeyError):
            pass  # it went away, or sent text
        finally:
            self._recording = False

    def _is_asked_for(self, host: str) -> bool:
        """A server for this machine only is asked for as such, or a foreign name points at it."""
        return self._host not in _LOOPBACK or urlsplit(f"//{host}").hostname in _LOOPBACK

    async def _accepted(self, websocket: WebSocket) -> bool:
        """Only pages of this very server may connect, or any page could listen in."""
        origin, host = websocket.headers.get("origin"), websocket.headers.get("host", "")
        is_own = origin is None or urlsplit(origin).netloc == host
        if not (is_own and self._is_asked_for(host)):
            await websocket.close(_WRONG_ORIGIN)
            return False
        await websocket.accept()
        return True


async def _until_gone(websocket: WebSocket) -> None:
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
