"""The caption page's server, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final, Self

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.http.addresses import Listener, find_own_address, url
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.stream import Controls
from whisper_hailo.serve.logs import rate_limited_network_log
from whisper_hailo.serve.routes.captions.access import PageAddress
from whisper_hailo.serve.routes.captions.feeds import Broadcast, Message
from whisper_hailo.serve.routes.captions.level_meter import LevelMeter
from whisper_hailo.serve.routes.captions.page_state import PageState

_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what users type
"""Addresses of every network card, which no browser opens, and what it opens in their place."""

END_POLLS: Final = 20
"""Tenths of a second that pages have to read that the stream is over."""

CLOSE_TIMEOUT_S: Final = 60.0
"""Longer than any wait: a server that hangs does not keep the program."""


class WebView(Closing):
    """Serves the page on a thread of its own; an event sink for the captioner's thread.

    Args:
        statistics: returns those of the captioner.
        address: where the page is served, and to whom.
        browser: source that a browser's microphone feeds, if it may be used.
        settings: what may be changed while captions run, as it is at first.
    """

    def __init__(
        self,
        statistics: Callable[[], CaptionStatistics],
        address: PageAddress,
        *,
        browser: BrowserSource | None = None,
        controls: Controls | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self._statistics = statistics
        self._address = address
        self._port = address.port
        self._scheme = "http" if address.tls is None else "https"
        self.broadcast = Broadcast(
            browser_microphone=browser is not None, settings=settings
        )
        self._page = PageState(address, self.broadcast, controls or Controls(), browser)
        self._meter = LevelMeter()
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def address(self) -> str:
        """Address for this machine."""
        host = self._address.host
        return self._address_at(_WILDCARDS.get(host, host))

    @property
    def address_for_others(self) -> str:
        """Address for other machines; empty without a network."""
        if self._address.host not in _WILDCARDS:
            return ""
        host = find_own_address(self._address.host)
        return "" if host is None else self._address_at(host)

    @property
    def address_to_control(self) -> str:
        """Address with the token, which grants all rights."""
        return f"{self.address}?token={self._address.access.token}"

    def _address_at(self, host: str) -> str:
        return url(self._scheme, host, self._port) + "/"

    def open(self) -> Self:
        """Start the server, and wait until its thread runs.

        Raises:
            OptionError: a library is missing, or the address is taken.
        """
        try:
            from whisper_hailo.http.server import HttpServer
            from whisper_hailo.serve.routes.captions.routes import (
                MAX_MESSAGE_BYTES,
                make_caption_app,
            )
        except ImportError as error:
            raise OptionError(
                f"--web needs starlette, uvicorn and websockets ({error}); {install_command('web')}"
            ) from error
        self._server = HttpServer(
            make_caption_app(self._page),
            ConnectionLimiter(self._address.max_viewers),
            self._address.tls,
            message_bytes=MAX_MESSAGE_BYTES,
        )
        advice = "give another --web-port, or a --web-host that this machine has"
        listener = Listener(self._address.host, self._port, self._scheme, advice)
        listener.listen()
        self._port = listener.port
        is_running = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run_server(listener, is_running)),
            name="caption-web",
            daemon=True,
        )
        self._thread.start()
        is_running.wait()
        return self

    async def _run_server(
        self, listener: Listener, is_running: threading.Event
    ) -> None:
        self._loop = asyncio.get_running_loop()
        is_running.set()
        with listener, rate_limited_network_log():
            await self._server.serve(sockets=[listener])

    def close(self) -> None:
        """Send the end of the stream, and stop the server."""
        loop = self._loop
        self._loop = None  # no event is handed over any more
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._end_stream(), loop)
            self._thread.join(CLOSE_TIMEOUT_S)

    async def _end_stream(self) -> None:
        """Send the end to pages that read; cut the sockets of others."""
        self.broadcast.end()
        for _ in range(END_POLLS):
            if not self.broadcast.n_clients:
                break
            await asyncio.sleep(0.1)
        self._server.limiter.close(stuck_only=True)
        self._server.should_exit = True
        self._server.force_exit = True

    def put(self, event: Event) -> None:
        """Hand an event to the server's thread."""
        if self._loop is not None:
            figures = self.make_figures() if isinstance(event, Completed) else None
            self._loop.call_soon_threadsafe(self.broadcast.put, event, figures)

    def put_audio(self, audio: FloatArray) -> None:
        """Show the level of `(n_samples,)` of the stream."""
        level_db = self._meter.level_db(audio)
        if self._loop is not None and level_db is not None:
            self._loop.call_soon_threadsafe(self.broadcast.put_level, level_db)

    def make_figures(self) -> Message:
        """Return the figures of the page's graphs."""
        statistics = self._statistics()
        latencies = statistics.final_latency_s
        return {
            "final_latency_s": round(latencies[-1], 4) if latencies else None,
            "rtfx": statistics.as_json()["rtfx"],
            "behind_s": round(statistics.behind_s, 1),
        }
