"""Who may ask, how often, and how much: decided before a request is read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.http.hosts import Hosts, address_of
from whisper_hailo.serve.api_keys import ApiKeys
from whisper_hailo.serve.engine import Engine
from whisper_hailo.serve.errors import BusyError, TooLargeError
from whisper_hailo.serve.http.failures import CLIENT, STORED, log_refused_request, response_of
from whisper_hailo.serve.quota import Reservation

_FOR_WATCHERS: Final = frozenset({"/health", "/ready"})
"""Answered without a key and by any name: what watches over the server knows neither."""

_STALL_S: Final = 30.0
"""So long a client may be silent in the middle of what it sends, or late in all."""

_SLOWEST: Final = 4096
"""Bytes a second; a client that sends less holds a place for no good."""

_KEY_PROTOCOL: Final = "openai-insecure-api-key."
"""Before the key in what a browser calls a protocol; its own name for it is OpenAI's."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """An ASGI application before another one.

    Args:
        app: the other one.
        hosts: by which names the server may be asked for.
        origins: pages of others that may ask.
        keys: of those who may ask.
        open_to_all: paths that need none, beside those for programs that watch over the server.
        most_bytes: of what a request sends.
        engine: counts requests against its quota.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        origins: Iterable[str],
        keys: ApiKeys,
        open_to_all: Iterable[str],
        most_bytes: int,
        engine: Engine,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = frozenset(origins)
        self._keys = keys
        self._open_to_all = _FOR_WATCHERS.union(open_to_all)
        self._most_bytes = most_bytes
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        with ExitStack() as place:
            try:
                self._admit(scope)
                if scope.get("method") == "POST":
                    scope[STORED] = place.enter_context(self._engine.admit(scope[CLIENT]))
            except (WhisperHailoError, HTTPException) as error:
                self._engine.metrics.failed(error)
                log_refused_request(scope, error)
                await response_of(error)(scope, receive, send)
                return
            if scope.get("method") == "HEAD":  # uvicorn leaves out the body of the answer
                scope = {**scope, "method": "GET"}
            stored = scope.get(STORED) or place.enter_context(self._engine.quota.reserve())
            body = _Body(receive, self._most_bytes, stored)
            await self._app(scope, body.receive, send)

    def _admit(self, scope: Scope) -> None:
        """Whether a request may go on; notes who asks.

        Raises:
            HTTPException: asked for by a foreign name, or by a foreign page.
            BadKeyError, TooManyError, TooLargeError: as they say.
        """
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        listed = headers.get("origin") in self._origins
        refusal = self._hosts.refusal(scope, any_page=listed or scope.get("method") in _READS)
        if refusal is not None and scope["path"] not in _FOR_WATCHERS:
            raise HTTPException(*refusal)
        client = address_of((scope.get("client") or ("", 0))[0])
        if scope["path"] not in self._open_to_all:
            client = self._keys.client(_key(scope, headers)) or client
            self._engine.quota.count_request(client)
        scope[CLIENT] = client
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._most_bytes:
            raise _too_large(self._most_bytes)


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
        self._most_bytes = most_bytes
        self._stored = stored
        self._begin_s = time.monotonic()
        self._n_bytes = 0
        self._done = False

    async def receive(self) -> Message:
        """The next piece.

        Raises:
            HTTPException: it is too much, or does not come.
        """
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
        if self._n_bytes > self._most_bytes:
            raise HTTPException(413, str(_too_large(self._most_bytes)))
        try:
            self._stored.take(len(message.get("body", b"")))
        except BusyError as error:
            raise HTTPException(503, str(error), {"Retry-After": str(error.retry_s)}) from None
        return message


def _too_large(most_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the request is larger than {most_bytes >> 20} MiB; send less, or a compressed format"
    )
