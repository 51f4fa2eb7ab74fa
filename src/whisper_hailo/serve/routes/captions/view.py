"""The caption page's server: who may use it, and its thread."""

from __future__ import annotations

import asyncio
import hmac
import math
import re
import secrets
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.http.addresses import Hosts, Listener, is_loopback, origin_of, own_address, url
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.stream import Controls
from whisper_hailo.serve.logs import rate_limited_network_log
from whisper_hailo.serve.routes.captions.feeds import Broadcast, Message

Right: TypeAlias = Literal["look", "record", "control"]
"""To see captions; to have one's microphone captioned; to change what is captioned and shown."""

_ALL: Final[tuple[Right, ...]] = ("look", "record", "control")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{8,128}")


class Access:
    """What everybody may do who reaches a page at an address, and what needs the token.

    A token that was given is needed for everything. Without one everybody may look, and record
    where only this machine reaches the page; controls need one that is generated for this run.
    """

    def __init__(self, given: str | None, host: str) -> None:
        if given is not None and not _TOKEN.fullmatch(given):
            raise OptionError(
                "--web-token is too short, too long or has other letters, expected 8 to 128 "
                "of A-Z a-z 0-9 . _ ~ -"
            )
        self.is_generated = given is None
        self.token = given or secrets.token_urlsafe(16)
        self.free: tuple[Right, ...] = ()
        if given is None:
            self.free = ("look", "record") if is_loopback(host) else ("look",)

    def rights(self, token: str | None) -> tuple[Right, ...] | None:
        """Return the rights of a token; `None` if it is wrong."""
        if not token:
            return self.free
        is_right = hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        return _ALL if is_right else None


def frame_ancestors(origins: Sequence[str]) -> str:
    """Return origins as a Content Security Policy takes them; `'none'` without any."""
    for origin in origins:
        if origin_of(origin.rstrip("/")) is None:
            raise OptionError(
                f"--web-frame is {origin!r}, expected the origin of a page, such as "
                "http://homeassistant.local:8123"
            )
    return " ".join(origin.rstrip("/").lower() for origin in origins) or "'none'"


_HERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what users type
"""The wildcard address cannot be opened in a browser."""

END_LOOKS: Final = 20  # Tenths of a second that pages have to read that the stream is over

CLOSE_TIMEOUT_S: Final = 60.0  # No wait is so long; a server that hangs does not keep the program


class PageAddress:
    """Where the page is served, and to whom; by default to this machine only.

    Args:
        names: further names of the server.
        framed_by: origins whose pages may show it in theirs.
        token: what `Access` needs; `None` has one generated.
        tls: of HTTPS; `None` serves HTTP.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8765,
        *,
        names: Iterable[str] = (),
        framed_by: Sequence[str] = (),
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.hosts = Hosts(host, names)
        self.access = Access(token, host)
        self.framed_by = frame_ancestors(framed_by)
        self.tls = tls


class WebView(Closing):
    """Serves the page on a thread of its own; an event sink for the captioner's thread.

    Args:
        browser: source that a browser's microphone feeds, if it may be used.
        settings: what may be changed while they run, as it is at first.
    """

    def __init__(
        self,
        statistics: Callable[[], CaptionStatistics],
        place: PageAddress,
        *,
        browser: BrowserSource | None = None,
        controls: Controls | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self._statistics = statistics
        self.place = place
        self._port = place.port
        self._scheme = "http" if place.tls is None else "https"
        self.browser = browser
        self.controls = controls or Controls()
        # Used by the server's thread only.
        self.broadcast = Broadcast(browser_microphone=browser is not None, settings=settings)
        self._meter = LevelMeter()
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def address(self) -> str:
        return self._at(_HERE.get(self.place.host, self.place.host))

    @property
    def address_for_others(self) -> str:
        """Address for other machines; empty without a network."""
        own = own_address(self.place.host) if self.place.host in _HERE else None
        return "" if own is None else self._at(own)

    def _at(self, host: str) -> str:
        return url(self._scheme, host, self._port) + "/"

    @property
    def address_to_control(self) -> str:
        """Address with the token, which grants all rights."""
        return f"{self.address}?token={self.place.access.token}"

    def open(self) -> Self:
        try:
            from whisper_hailo.http.server import HttpServer
            from whisper_hailo.serve.routes.captions.routes import MOST_BYTES, make_caption_app
        except ImportError as error:
            raise OptionError(
                f"--web needs starlette, uvicorn and websockets ({error}); {install_command('web')}"
            ) from error
        app, tls = make_caption_app(self), self.place.tls
        self._server = HttpServer(app, ConnectionLimiter(), tls, message_bytes=MOST_BYTES)
        advice = "give another --web-port, or a --web-host that this machine has"
        listener = Listener(self.place.host, self._port, self._scheme, advice)
        listener.listen()
        self._port = listener.port
        ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            ready.set()
            with listener, rate_limited_network_log():
                await self._server.serve(sockets=[listener])

        self._thread = threading.Thread(
            target=lambda: asyncio.run(serve()), name="caption-web", daemon=True
        )
        self._thread.start()
        ready.wait()
        return self

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._end(), loop)
            self._thread.join(CLOSE_TIMEOUT_S)

    async def _end(self) -> None:
        """Send the end to pages that read; cut the sockets of others."""
        self.broadcast.end()
        for _ in range(END_LOOKS):
            if not self.broadcast.n_clients:
                break
            await asyncio.sleep(0.1)
        self._server.limiter.close(stuck_only=True)
        self._server.should_exit = self._server.force_exit = True

    def put(self, event: Event) -> None:
        """Hand an event to the server's thread."""
        if self._loop is not None:
            figures = self.figures() if isinstance(event, Completed) else None
            self._loop.call_soon_threadsafe(self.broadcast.put, event, figures)

    def hear(self, audio: FloatArray) -> None:
        """Show the level of `(n_samples,)` of the stream."""
        level_db = self._meter.level_db(audio)
        if self._loop is not None and level_db is not None:
            self._loop.call_soon_threadsafe(self.broadcast.put_level, level_db)

    def figures(self) -> Message:
        statistics = self._statistics()
        latencies = statistics.final_latency_s
        return {
            "final_latency_s": round(latencies[-1], 4) if latencies else None,
            "rtfx": statistics.as_json()["rtfx"],
            "behind_s": round(statistics.behind_s, 1),
        }


SILENCE_DB: Final = -90.0  # The lowest level reported: one step of 16 bits
_EACH: Final = SAMPLE_RATE_HZ // 8  # samples of one reading


class LevelMeter:
    """Reads the level of a stream some eight times a second of it."""

    def __init__(self) -> None:
        self._power = 0.0
        self._n_samples = 0

    def level_db(self, audio: FloatArray) -> float | None:
        """Return the root mean square in dB below full scale since the last one, if it is due."""
        self._power += float(np.dot(audio, audio))
        self._n_samples += audio.size
        if self._n_samples < _EACH:
            return None
        mean = self._power / self._n_samples
        self._power, self._n_samples = 0.0, 0
        return min(0.0, max(SILENCE_DB, 10 * math.log10(mean))) if mean > 0 else SILENCE_DB
