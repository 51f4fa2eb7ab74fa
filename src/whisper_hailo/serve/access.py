"""Access by HTTP: keys, hosts and limits of requests, and the answers to refused ones."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whisper_hailo.core.errors import AudioError, DeviceError, OptionError, WhisperHailoError
from whisper_hailo.http.addresses import Hosts, address_of
from whisper_hailo.serve.errors import (
    BadKeyError,
    ClientDisconnectedError,
    RejectedError,
    TooLargeError,
    TooManyError,
    sanitize_error,
    translate_full_storage,
)
from whisper_hailo.serve.logs import log_refusal
from whisper_hailo.serve.quota import Quota, Reservation
from whisper_hailo.serve.request import Caller

if TYPE_CHECKING:
    from fastapi import FastAPI

    from whisper_hailo.serve.metrics import Metrics

CLIENT: Final = "whisper_hailo.client"  # Key of the client's name in a request's scope

SUBMITTED: Final = "whisper_hailo.submitted"
"""Key in the scope of a request that the engine has taken."""

STORED: Final = "whisper_hailo.stored"
"""Key of the reservation for what a request stores, in its scope."""

_FOR_WATCHERS: Final = frozenset({"/health", "/ready"})
"""Answered without a key and by any name: what watches over the server knows neither."""

STALL_S: Final = 30.0
"""Longest silence in a request's body, and longest delay behind the slowest rate."""

_SLOWEST: Final = 4096  # bytes a second

_KEY_PROTOCOL: Final = "openai-insecure-api-key."
"""Before the key in what a browser calls a protocol; its own name for it is OpenAI's."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(eq=False)
class AccessMiddleware:
    """ASGI middleware that refuses requests before they are read.

    Args:
        origins: pages of other servers that may call this one.
        keys: API keys; without any, no request needs one.
        open_to_all: paths that need none, beside those for programs that watch over the server.
    """

    app: ASGIApp
    _: KW_ONLY
    hosts: Hosts
    quota: Quota
    metrics: Metrics | None = None
    origins: Collection[str] = ()
    keys: Collection[str] = ()
    open_to_all: Collection[str] = ()
    max_bytes: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        with ExitStack() as place:
            try:
                self._check(scope)
                sends = scope.get("method") == "POST"
                holder = self.quota.request(scope[CLIENT]) if sends else Reservation(self.quota)
                stored = scope[STORED] = place.enter_context(holder)
            except (WhisperHailoError, HTTPException) as error:
                await refuse(scope, error, self.metrics)(scope, receive, send)
                return
            if scope.get("method") == "HEAD":  # uvicorn leaves out the body of the answer
                scope = {**scope, "method": "GET"}
            await self.app(scope, _limit_body(receive, self.max_bytes, stored), send)

    def _check(self, scope: Scope) -> None:
        """Refuse a request, or note its client."""
        headers = Headers(scope=scope)
        listed = headers.get("origin") in self.origins
        refusal = self.hosts.refusal(scope, any_page=listed or scope.get("method") in _READS)
        if refusal is not None and scope["path"] not in _FOR_WATCHERS:
            raise HTTPException(*refusal)
        client = _peer_address(scope)
        if scope["path"] not in (*_FOR_WATCHERS, *self.open_to_all):
            if self.keys:
                client = self._owner_of(_sent_key(scope, headers))
            self.quota.count_request(client)
        scope[CLIENT] = client
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.max_bytes:
            raise _too_large(self.max_bytes)

    def _owner_of(self, given: str) -> str:
        """Return a name for the owner of a key that does not reveal it."""
        are_right = [hmac.compare_digest(key.encode(), given.encode()) for key in self.keys]
        if not any(are_right):  # all are compared, so that time does not tell which was near
            raise BadKeyError(
                "the API key is missing or wrong; send it as Authorization: Bearer KEY"
            )
        return "key " + hashlib.sha256(given.encode()).hexdigest()[:8]


def _peer_address(scope: Scope) -> str:
    return address_of((scope.get("client") or ("", 0))[0])


def _sent_key(scope: Scope, headers: Headers) -> str:
    """Return the key of a request; a page's WebSocket has only its subprotocols to say it in."""
    for offered in scope.get("subprotocols", ()):
        if offered.startswith(_KEY_PROTOCOL):
            return str(offered.removeprefix(_KEY_PROTOCOL))
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")


def _limit_body(receive: Receive, max_bytes: int, stored: Reservation) -> Receive:
    """Return a `receive` of ASGI that limits size and time of the body."""
    begin_s, n_bytes, is_complete = time.monotonic(), 0, False

    async def receive_limited() -> Message:
        nonlocal n_bytes, is_complete
        if is_complete:
            return await receive()
        spent_s = time.monotonic() - begin_s - n_bytes / _SLOWEST
        try:
            async with asyncio.timeout(max(0.0, STALL_S - max(0.0, spent_s))):
                message = await receive()
            length = len(message.get("body", b""))
            n_bytes += length
            is_complete = not message.get("more_body", False)
            if n_bytes > max_bytes:
                raise _too_large(max_bytes)
            stored.take(length)
        except TimeoutError:
            raise HTTPException(408, f"too little came for {STALL_S:g} s; send it again") from None
        except RejectedError as error:  # FastAPI would answer that it cannot parse the body
            raise HTTPException(error.status, str(error), _error_headers(error)) from None
        return message

    return receive_limited


def _too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the request is larger than {max_bytes >> 20} MiB; send less, or a compressed format"
    )


def _status_of(error: Exception) -> int:
    """Return the status of HTTP for an error; 500 for faults of our own."""
    if isinstance(error, RejectedError):
        return error.status
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, OptionError | AudioError):
        return 400
    return 503 if isinstance(error, DeviceError) else 500


def _error_headers(error: Exception) -> dict[str, str]:
    if isinstance(error, HTTPException):
        return dict(error.headers or {})
    if isinstance(error, BadKeyError):
        return {"WWW-Authenticate": "Bearer"}
    retry_s = getattr(error, "retry_s", None)
    return {} if retry_s is None else {"Retry-After": str(retry_s)}


def body_of(error: Exception, param: str | None = None) -> dict[str, Any]:
    """Return the error object of OpenAI's API, without anything of this machine in it."""
    kind = "server_error" if _status_of(error) >= 500 else "invalid_request_error"
    if isinstance(error, TooManyError):
        kind = "requests"
    message = str(error.detail) if isinstance(error, HTTPException) else sanitize_error(error)
    code = error.code if isinstance(error, RejectedError) else None
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refuse(
    scope: Scope, error: Exception, metrics: Metrics | None, param: str | None = None
) -> JSONResponse:
    """Count and log a request that failed; return its answer.

    The engine logs those that it has taken.
    """
    if metrics is not None:
        metrics.failed(error)
    body, status = body_of(error, param), _status_of(error)
    if not (scope.get(SUBMITTED) or isinstance(error, ClientDisconnectedError)):
        log_refusal(
            Caller(scope.get(CLIENT) or _peer_address(scope), "http"),
            error,
            status=status,
            method=scope.get("method", "WEBSOCKET"),
            path=scope["path"],
            why=body["error"]["message"],
        )
    return JSONResponse(body, status, _error_headers(error))


def answer_failures(app: FastAPI, metrics: Metrics) -> None:
    """Have an application answer all errors as OpenAI's API does."""
    from fastapi.exceptions import RequestValidationError

    async def failed(request: Request, error: Exception) -> JSONResponse:
        param = None
        error = translate_full_storage(error)
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            param = next((str(part) for part in first["loc"][1:]), None)
            error = HTTPException(400, f"{param or 'the request'}: {first['msg']}")
        return refuse(request.scope, error, metrics, param)

    for kind in (WhisperHailoError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, failed)
