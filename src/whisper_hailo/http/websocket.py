"""WebSockets as pages and clients speak them: uvicorn's, but for what it takes for errors.

Loaded only where uvicorn is.
"""

from __future__ import annotations

from contextlib import suppress
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
        if self.transport.is_closing() or self.close_sent:
            self.handshake_complete = True  # or it would be missed
            raise ClientDisconnected
        await super().send(message)
        self.handshake_complete |= self.close_sent  # also by the last word of a refusal

    def shutdown(self) -> None:
        """Say that the server ends, unless the other side has said goodbye already."""
        with suppress(InvalidState):  # it would keep the server from closing all others
            super().shutdown()
