"""The web page: captions for every browser that looks, over WebSockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.broadcast import Broadcast, Message
from whisper_hailo.live.browser import BrowserSource
from whisper_hailo.live.door import Door, Line
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.frames import frame_ancestors
from whisper_hailo.live.hosts import Hosts
from whisper_hailo.live.listening import listen
from whisper_hailo.live.meter import Meter
from whisper_hailo.live.once import only_once
from whisper_hailo.live.pages import MOST_BYTES, Pages
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)

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
        hosts: by which names the page may be asked for; `None`: those that go with `host`.
        framed_by: origins of pages that may show it in theirs.

    Raises:
        OptionError: no host, or what is no origin.
    """

    def __init__(
        self,
        statistics: Callable[[], CaptionStatistics],
        host: str = "127.0.0.1",
        port: int = 8765,
        browser: BrowserSource | None = None,
        hosts: Hosts | None = None,
        *,
        framed_by: Iterable[str] = (),
    ) -> None:
        self._statistics = statistics
        self._host = host
        self._port = port
        self._browser = browser
        self._hosts = hosts or Hosts.of(host)
        self._framed_by = frame_ancestors(framed_by)
        self._meter = Meter()
        self._broadcast = Broadcast(browser_microphone=browser is not None)
        self._server: Any = None
        self._door = Door(logger.warning)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def address(self) -> str:
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
        advice = "give another --web-port, or a --web-host that this machine has"
        listener = listen(self._host, self._port, self.address, advice)
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            Pages(self._broadcast, self._browser, self._hosts, self._framed_by),
            http=self._line,  # type: ignore[arg-type]  # it is called like a class
            backlog=self._door.at_once,
            ws_max_size=MOST_BYTES,
            ws_per_message_deflate=False,  # a few bytes would become megabytes
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
        )
        self._server = uvicorn.Server(config)
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, args=(listener, ready), name="caption-web", daemon=True
        )
        self._thread.start()
        ready.wait()
        return self

    def _line(self, *, app_state: dict[str, Any], **given: Any) -> Line:  # noqa: ANN401 - uvicorn's
        """The protocol of a new connection; who answers it finds it in the request's state."""
        from whisper_hailo.live.http import PageProtocol

        line = Line(self._door)
        line.inner = PageProtocol(app_state={**app_state, "line": line}, **given)
        return line

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
            self._loop.call_soon_threadsafe(self._broadcast.put, event, figures)

    def hear(self, audio: FloatArray) -> None:
        """Show how loud `(n_samples,)` of the stream are."""
        level_db = self._meter.level_db(audio)
        if self._loop is not None and level_db is not None:
            self._loop.call_soon_threadsafe(self._broadcast.put_level, level_db)

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
            self._loop.set_exception_handler(_tell)
            ready.set()
            await self._server.serve(sockets=[listener])
            self._door.close()

        with only_once(logger, logging.getLogger("uvicorn.error"), logging.getLogger("asyncio")):
            asyncio.run(run())
        listener.close()

    async def _end(self) -> None:
        """Pages that read are told; sockets of those that do not are cut."""
        self._broadcast.end()
        for _ in range(_END_LOOKS):
            if not self._broadcast.n_clients:
                break
            await asyncio.sleep(0.1)
        self._door.close(unread_only=True)
        self._server.should_exit = True
        self._server.force_exit = True


def _tell(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody else takes care of."""
    logger.error(context["message"], exc_info=context.get("exception"))
