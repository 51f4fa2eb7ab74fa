"""HTTP and WebSocket: uvicorn's protocols, for connections with limits.

Loaded only where uvicorn is installed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

_BAD: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_FRAGMENT_BYTES: Final = 1 << 16
"""May come beside the content of a message: the heads of its frames, and pings."""


class HttpProtocol(H11Protocol):
    """Answers each request once, and tells its `Connection` whether a request is under way."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.connection.set_busy()  # type: ignore[attr-defined]

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():  # none was pipelined
            self.transport.connection.set_idle()  # type: ignore[attr-defined]

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 - h11's
        """Hand over to WebSocket; refuse what is no handshake, such as one with a body."""
        super().handle_websocket_upgrade(event)
        websocket = self.transport.connection.inner  # type: ignore[attr-defined]
        if not websocket.handshake_initiated:
            self.transport.write(_BAD)
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; abort the answer to its head if one has begun.

        uvicorn would send a second answer, which is an error in the task or in the connection.
        """
        del msg
        cycle, has_begun = self.cycle, False
        if cycle is not None:
            has_begun = cycle.response_started and not cycle.response_complete
            cycle.disconnected = True  # the application sees it, and what it sends is dropped
            cycle.message_event.set()
        if not has_begun:
            self.transport.write(_BAD)
        self.transport.close()


class WebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that may be refused, flooded or left at any moment; none of it is an error.

    uvicorn takes these for errors of the application or of the server.
    """

    _n_pending = 0
    """Bytes since the last message that was complete."""

    def data_received(self, data: bytes) -> None:
        """Take data; abort the connection if too much comes that completes no message."""
        self._n_pending += len(data)
        super().data_received(data)
        if self._n_pending > len(data) + self.config.ws_max_size + _FRAGMENT_BYTES:
            self.logger.warning("some WebSockets sent much that was no message and were closed")
            self.transport.abort()

    def send_receive_event_to_app(self) -> None:
        self._n_pending = 0
        super().send_receive_event_to_app()

    def handle_pong(self, event: Any) -> None:  # noqa: ANN401 - of websockets
        """Take an answer to a ping of ours, which is all that a silent client sends."""
        if self.pending_ping_payload == bytes(event.data):
            self._n_pending = 0
        super().handle_pong(event)

    async def send(self, message: Any) -> None:  # noqa: ANN401 - of ASGI
        """Send a message of ASGI; a connection that is accepted is busy.

        Raises:
            ClientDisconnected: the client has left.
        """
        if self.transport.is_closing() or self.close_sent:
            self.handshake_complete = True  # or uvicorn misses it
            raise ClientDisconnected
        if message["type"] == "websocket.accept":
            self.transport.connection.set_busy()  # type: ignore[attr-defined]
        await super().send(message)
        self.handshake_complete |= self.close_sent  # also by the end of a refusal

    def shutdown(self) -> None:
        """Close for the end of the server, whatever the state of the handshake."""
        if not self.handshake_initiated:
            self.transport.abort()
            return
        with suppress(InvalidState):  # the client has closed already
            super().shutdown()
