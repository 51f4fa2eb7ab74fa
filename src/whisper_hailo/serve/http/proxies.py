"""Reverse proxies: what a trusted one says of its client is believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from whisper_hailo.http.hosts import Network, address_of


class TrustedProxies:
    """ASGI middleware for `X-Forwarded-For`, `-Proto` (uvicorn's) and `-Host` of trusted proxies.

    Args:
        app: sees the client's address, scheme and host.
        proxies: networks whose headers are believed.
    """

    def __init__(self, app: ASGIApp, proxies: Collection[Network]) -> None:
        self._proxies = proxies
        trusted = [str(network) for network in proxies]
        self._app = ProxyHeadersMiddleware(app, trusted)  # type: ignore[arg-type]  # its own types

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as if its client had sent it to this server."""
        if scope["type"] != "lifespan" and self._is_trusted(scope):
            headers = dict(scope["headers"])
            host = headers.get(b"x-forwarded-host", b"").split(b",")[0].strip()
            if host:
                others = [header for header in scope["headers"] if header[0] != b"host"]
                scope = {**scope, "headers": [*others, (b"host", host)]}
        await self._app(scope, receive, send)  # type: ignore[arg-type]

    def _is_trusted(self, scope: Scope) -> bool:
        try:
            peer = ipaddress.ip_address(address_of((scope.get("client") or ("", 0))[0]))
        except ValueError:
            return False
        return any(peer in network for network in self._proxies)
