"""The HTTP server: uvicorn, with limits on connections before TLS and HTTP begin.

Loaded only where uvicorn is installed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from whisper_hailo.http.connections import Connection, ConnectionLimiter
from whisper_hailo.http.protocol import HttpProtocol, WebSocket

_KEEP_ALIVE_S: Final = 5
_PING_S: Final = 20.0
_CLOSED_S: Final = 5
"""For answers under way when the server ends."""


class HttpServer(uvicorn.Server):
    """Serves an ASGI application; signals are the program's.

    Args:
        app: the application.
        limiter: of connections.
        tls: makes it HTTPS.
        message_bytes: most bytes of a WebSocket message.
        pong_s: for a client's answer to a ping.
    """

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - uvicorn's own type
        limiter: ConnectionLimiter,
        tls: ssl.SSLContext | None,
        *,
        message_bytes: int,
        pong_s: float = _PING_S,
    ) -> None:
        self.limiter = limiter
        self._tls = tls
        super().__init__(
            uvicorn.Config(
                app,
                http=self._connection,  # type: ignore[arg-type]  # called as a class is
                ws=WebSocket,
                backlog=limiter.backlog,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                ws_max_size=message_bytes,
                ws_per_message_deflate=False,  # a few bytes would become megabytes
                ws_ping_interval=_PING_S,
                ws_ping_timeout=pong_s,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_CLOSED_S,
            )
        )

    def _connection(self, *, app_state: dict[str, Any], **given: Any) -> Connection:  # noqa: ANN401 - uvicorn's
        """Return the protocol of a new connection; applications find it in the request's state."""
        connection = Connection(self.limiter, self._tls)
        connection.inner = HttpProtocol(app_state={**app_state, "connection": connection}, **given)
        return connection

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit`, then close all connections."""
        await super().serve(sockets)
        self.limiter.close()
