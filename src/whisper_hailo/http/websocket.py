"""WebSockets as pages and clients speak them: uvicorn's, but for what it takes for errors.

Loaded only where uvicorn is.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState


class WebSocket(WebSocketsSansIOProtocol):
    """One that may be refused, whose client may break off with nonsense, or leave as we do.

    All are in order; uvicorn takes them for errors of the application or of the server.
    """

    async def send(self, message: Any) -> None:  # noqa: ANN401 - of ASGI
        """See ASGI.

        Raises:
            ClientDisconnected: there is nobody to send to any more.
        """
        if self.transport.is_closing() or (self.close_sent and self.initial_response is None):
            self.handshake_complete = True  # or it would be missed
            raise ClientDisconnected
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True

    def shutdown(self) -> None:
        """Say that the server ends, unless the other side has said goodbye already."""
        try:
            super().shutdown()
        except InvalidState:  # it would keep the server from closing all others
            self.transport.close()
