"""How HTTP is served: uvicorn, with time for what uvicorn waits for for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from whisper_hailo.http.protocol import PageProtocol
from whisper_hailo.http.websocket import WebSocket
from whisper_hailo.serve.doors.realtime_wire import MOST_BYTES
from whisper_hailo.serve.options import LimitOptions, SafetyOptions

_HEAD_S: Final = 10.0
"""From the beginning of a connection, or of a request, to the end of the request's head."""

_KEEP_ALIVE_S: Final = 5
_PING_S: Final = 20.0
"""After which a client that broke off with nonsense is hung up on, too."""

_PONG_S: Final = 300.0
"""Who sends faster than it is heard is not read for a while, nor are its answers to pings."""

_CLOSED_S: Final = 5.0
"""For answers under way when the time to drain is over."""


class HttpServer(uvicorn.Server):
    """Serves an application; signals are the whole program's.

    Args:
        app: behind HTTP.
        limits: how many connections.
        safety: certificates.
    """

    def __init__(self, app: ASGIApp, limits: LimitOptions, safety: SafetyOptions) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws=WebSocket,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                ws_max_size=MOST_BYTES,
                ws_per_message_deflate=False,  # a few bytes would become megabytes
                ws_ping_interval=_PING_S,
                ws_ping_timeout=_PONG_S,
                limit_concurrency=limits.connections,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=round(_CLOSED_S),
            )
        )
        self.config.load()
        self.config.ssl = safety.tls.context()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program, which ends all of its doors."""
        yield


class _Protocol(PageProtocol):
    """Closes connections whose requests do not begin, or whose heads do not end, in time."""

    _timer: asyncio.TimerHandle | None = None
    _is_left = False  # it speaks WebSocket now, by another protocol

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - any of asyncio's
        super().connection_made(transport)
        self._wait_for_head(waits=True)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_idle = self.cycle is None or self.cycle.response_complete
        self._wait_for_head(waits=is_idle and not self._is_left)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for_head(waits=False)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 - h11's
        """What follows is no HTTP."""
        super().handle_websocket_upgrade(event)
        self._is_left = True

    def _wait_for_head(self, *, waits: bool) -> None:
        """Close the connection in time; pieces of a head do not begin it anew."""
        if not waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif waits and self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(_HEAD_S, self.transport.close)
