"""Access: who may ask, how often, and how much, decided before a request is read."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.http.hosts import Hosts, Network, address_of
from whisper_hailo.serve.api_keys import ApiKeys
from whisper_hailo.serve.errors import BusyError, TooLargeError
from whisper_hailo.serve.http.errors import CLIENT, STORED, log_refused_request, response_of
from whisper_hailo.serve.quota import Quota, Reservation

_FOR_WATCHERS: Final = frozenset({"/health", "/ready"})
"""Answered without a key and by any name: what watches over the server knows neither."""

_STALL_S: Final = 30.0
"""So long a client may be silent in the middle of what it sends, or late in all."""

_SLOWEST: Final = 4096
"""Bytes a second; a client that sends less holds a place for no good."""

_KEY_PROTOCOL: Final = "openai-insecure-api-key."
"""Before the key in what a browser calls a protocol; its own name for it is OpenAI's."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class AccessMiddleware:
    """ASGI middleware that refuses requests before they are read.

    Args:
        app: answers what is admitted.
        hosts: names by which the server may be asked for.
        quota: counts requests per client.
        admit: holds a place for a request that sends something.
        on_refusal: is called with the error of each refusal.
        origins: pages of others that may ask.
        keys: API keys; `None`: everyone may ask.
        open_to_all: paths that need none, beside those for programs that watch over the server.
        max_bytes: of what a request sends.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        quota: Quota,
        admit: Callable[[str], AbstractContextManager[Reservation]],
        on_refusal: Callable[[Exception], None],
        origins: Iterable[str] = (),
        keys: ApiKeys | None = None,
        open_to_all: Iterable[str] = (),
        max_bytes: int = 0,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._quota = quota
        self._admit = admit
        self._on_refusal = on_refusal
        self._origins = frozenset(origins)
        self._keys = keys
        self._open_to_all = _FOR_WATCHERS.union(open_to_all)
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        with ExitStack() as place:
            try:
                self._check(scope)
                if scope.get("method") == "POST":
                    scope[STORED] = place.enter_context(self._admit(scope[CLIENT]))
            except (WhisperHailoError, HTTPException) as error:
                self._on_refusal(error)
                log_refused_request(scope, error)
                await response_of(error)(scope, receive, send)
                return
            if scope.get("method") == "HEAD":  # uvicorn leaves out the body of the answer
                scope = {**scope, "method": "GET"}
            stored = scope.get(STORED) or place.enter_context(self._quota.reserve())
            body = _Body(receive, self._max_bytes, stored)
            await self._app(scope, body.receive, send)

    def _check(self, scope: Scope) -> None:
        """Whether a request may go on; notes who asks."""
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        listed = headers.get("origin") in self._origins
        refusal = self._hosts.refusal(scope, any_page=listed or scope.get("method") in _READS)
        if refusal is not None and scope["path"] not in _FOR_WATCHERS:
            raise HTTPException(*refusal)
        client = address_of((scope.get("client") or ("", 0))[0])
        if scope["path"] not in self._open_to_all:
            if self._keys is not None:
                client = self._keys.client(_key(scope, headers)) or client
            self._quota.count_request(client)
        scope[CLIENT] = client
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._max_bytes:
            raise _too_large(self._max_bytes)


def _key(scope: Scope, headers: Mapping[str, str]) -> str:
    """The key that a request brings; a page's WebSocket has only its subprotocols to say it in."""
    for offered in scope.get("subprotocols", ()):
        if offered.startswith(_KEY_PROTOCOL):
            return str(offered.removeprefix(_KEY_PROTOCOL))
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")


class _Body:
    """What a client sends, as far as it may."""

    def __init__(self, receive: Receive, most_bytes: int, stored: Reservation) -> None:
        self._receive = receive
        self._max_bytes = most_bytes
        self._stored = stored
        self._begin_s = time.monotonic()
        self._n_bytes = 0
        self._done = False

    async def receive(self) -> Message:
        """The next piece."""
        if self._done:
            return await self._receive()
        spent_s = time.monotonic() - self._begin_s - self._n_bytes / _SLOWEST
        try:
            async with asyncio.timeout(max(0.0, _STALL_S - max(0.0, spent_s))):
                message: dict[str, Any] = dict(await self._receive())
        except TimeoutError:
            raise HTTPException(408, f"too little came for {_STALL_S:g} s; send it again") from None
        self._n_bytes += len(message.get("body", b""))
        self._done = not message.get("more_body", False)
        if self._n_bytes > self._max_bytes:
            raise HTTPException(413, str(_too_large(self._max_bytes)))
        try:
            self._stored.take(len(message.get("body", b"")))
        except BusyError as error:
            raise HTTPException(503, str(error), {"Retry-After": str(error.retry_s)}) from None
        return message


def _too_large(most_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the request is larger than {most_bytes >> 20} MiB; send less, or a compressed format"
    )


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
