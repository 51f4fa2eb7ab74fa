"""The HTTP server: uvicorn, with limits on connections before TLS and HTTP begin.

Loaded only where uvicorn is installed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from whisper_hailo.http.connections import Connection, ConnectionLimiter

_KEEP_ALIVE_S: Final = 5
"""After an answer, for the next request of the connection."""

PING_S: Final = 20.0
"""Between two pings of a WebSocket; a client that has left is found so."""

_CLOSED_S: Final = 5
"""For answers under way when the server ends."""

_BAD: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 0\r\n\r\n"
)


_ACKNOWLEDGE_S: Final = 20.0
"""For a client to answer a ping, or to send anything else."""


_PIECE_BYTES: Final = 16 << 10
"""Of a WebSocket, taken at once: up to 2,700 frames. A read of 256 KiB may hold 40,000."""


class HttpProtocol(H11Protocol):
    """Answers each request once, and marks its `Connection` as busy or idle."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.set_busy()  # type: ignore[attr-defined]

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # If the client has sent the next request already, its cycle has begun.
        if self.cycle.response_complete and not self.transport.is_closing():
            self.transport.set_idle()  # type: ignore[attr-defined]

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 - h11's
        """Hand over to WebSocket, or refuse a bad handshake, such as a request with a body."""
        super().handle_websocket_upgrade(event)
        if not self.transport.inner.handshake_initiated:  # type: ignore[attr-defined]
            self.transport.write(_BAD)
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no request; abort an answer that has begun.

        uvicorn would send a second answer, which is an error in the task or in the connection.
        """
        del msg
        cycle = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            self.transport.write(_BAD)
        if cycle is not None:
            cycle.disconnected = (
                True  # the application is told, and what it sends is dropped
            )
            cycle.message_event.set()
        self.transport.close()


class WebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that may be refused, flooded or left at any moment without an error.

    uvicorn takes these for errors of the application or of the server.

    Args:
        pong_s: for a client that sends more than is read to answer a ping. Its answer waits behind
            what the server does not take yet.
    """

    def __init__(self, *arguments: Any, pong_s: float = PING_S, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*arguments, **named)
        self._pong_s = pong_s
        self._received_at = 0.0
        self._unread = bytearray()
        self._is_taking = False

    def data_received(self, data: bytes) -> None:
        """Take data piece by piece, so that others have their turn between many small frames."""
        self._received_at = self.loop.time()
        self._unread += data
        if not self._is_taking:
            self._take_piece()

    def _take_piece(self) -> None:
        """Take the first piece of what has come; the next one when others had their turn."""
        if self.transport.is_closing():
            self._unread.clear()
            return
        piece = bytes(self._unread[:_PIECE_BYTES])
        del self._unread[:_PIECE_BYTES]
        super().data_received(piece)
        was_taking = self._is_taking
        self._is_taking = bool(self._unread)
        if self._is_taking:
            self.transport.pause_reading()
            self.loop.call_soon(self._take_piece)
        elif was_taking and not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> Any:  # noqa: ANN401 - of ASGI
        """Return the next message of ASGI."""
        message = await super().receive()
        # uvicorn reads on when all messages are received, but frames are still to be taken.
        if self._is_taking:
            self.transport.pause_reading()
        return message

    def keepalive_timeout(self) -> None:
        """Close the connection of a client that is gone, or does not answer at all."""
        waited_s = self.loop.time() - self.ping_sent_at
        is_gone = self.transport.has_unacknowledged_data  # type: ignore[attr-defined]
        is_silent = not self.read_paused and self._received_at <= self.ping_sent_at
        if is_gone or is_silent or waited_s >= self._pong_s:
            super().keepalive_timeout()
            return
        self.pong_timer = self.loop.call_later(_ACKNOWLEDGE_S, self.keepalive_timeout)

    async def send(self, message: Any) -> None:  # noqa: ANN401 - of ASGI
        """Send a message of ASGI; an accepted connection is busy."""
        if self.transport.is_closing() or self.close_sent:
            self.handshake_complete = (
                True  # otherwise uvicorn reports a handshake without an end
            )
            raise ClientDisconnected
        if message["type"] == "websocket.accept":
            self.transport.set_busy()  # type: ignore[attr-defined]
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True  # a refusal ends the handshake, too

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone, and let go of the last message."""
        super().connection_lost(exc)
        # The parser's frame holds it, and the parser's owner, in a cycle.
        self.conn.parser.close()

    def shutdown(self) -> None:
        """Close for the end of the server, whatever the state of the handshake."""
        if not self.handshake_initiated:
            self.transport.abort()
            return
        with suppress(InvalidState):  # the client has closed already
            super().shutdown()


class HttpServer(uvicorn.Server):
    """Serves an ASGI application; signals are the program's.

    A WebSocket message has `message_bytes` at most; see `WebSocket` for `pong_s`.
    """

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - uvicorn's own type
        limiter: ConnectionLimiter,
        tls: ssl.SSLContext | None,
        *,
        message_bytes: int,
        pong_s: float = PING_S,
    ) -> None:
        self.limiter = limiter
        self._tls = tls
        super().__init__(
            uvicorn.Config(
                app,
                http=self._connection,  # type: ignore[arg-type]  # called as a class is
                ws=partial(WebSocket, pong_s=pong_s),  # type: ignore[arg-type]  # called as a class is
                backlog=limiter.backlog,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                ws_max_size=message_bytes,
                ws_per_message_deflate=False,  # a few bytes could become megabytes
                ws_ping_interval=PING_S,
                ws_ping_timeout=min(pong_s, _ACKNOWLEDGE_S),
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_CLOSED_S,
            )
        )

    def _connection(self, *, app_state: dict[str, Any], **arguments: Any) -> Connection:  # noqa: ANN401 - uvicorn's
        """Return the protocol of a new connection; applications find it in the request's state."""
        connection = Connection(self.limiter, self._tls)
        connection.inner = HttpProtocol(
            app_state={**app_state, "connection": connection}, **arguments
        )
        return connection

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit`, then close all connections."""
        await super().serve(sockets)
        self.limiter.close()
