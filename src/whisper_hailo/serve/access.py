"""Access over HTTP: keys, hosts and limits of requests, and the answers to refused ones."""

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

from whisper_hailo.core.errors import (
    AudioError,
    DeviceError,
    HubError,
    OptionError,
    WhisperHailoError,
)
from whisper_hailo.http.addresses import MISDIRECTED, Hosts, name_client
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

CLIENT: Final = "whisper_hailo.client"
"""Key of the client's name in a request's scope."""

SUBMITTED: Final = "whisper_hailo.submitted"
"""Key in the scope of a request that a model has taken, which logs its end."""

RESERVATION: Final = "whisper_hailo.reservation"
"""Key of the reservation for what a request stores, in its scope."""

_PROBES: Final = frozenset({"/health", "/ready"})
"""Answered without a key and under any name: monitoring knows neither."""

STALL_S: Final = 30.0
"""Longest silence in a request's body, and longest delay behind the slowest rate."""

_MIN_BYTES_PER_SECOND: Final = 4096

_KEY_PROTOCOL: Final = "openai-insecure-api-key."
"""Prefix of the key among a browser's WebSocket subprotocols; OpenAI chose the name."""

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing and take no place (RFC 9110)."""


@dataclass(eq=False)
class AccessMiddleware:
    """ASGI middleware that refuses requests before they are read.

    Args:
        origins: pages of other servers that may call this one.
        keys: API keys; without any, no request needs one.
        open_to_all: paths that need no key, besides those of `_PROBES`.
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
        with ExitStack() as resources:
            try:
                self._check_access(scope)
                reservation = self._reserve_storage(scope, resources)
            except (WhisperHailoError, HTTPException) as error:
                await refuse(scope, error, self.metrics)(scope, receive, send)
                return
            scope[RESERVATION] = reservation
            # `uvicorn` leaves out the body of the answer.
            if scope.get("method") == "HEAD":
                scope = {**scope, "method": "GET"}
            await self.app(
                scope, _limit_body(receive, self.max_bytes, reservation), send
            )

    def _check_access(self, scope: Scope) -> None:
        """Refuse a request, or note its client in the scope."""
        headers = Headers(scope=scope)
        self._check_host(scope, headers)
        client = _name_peer(scope)
        path = scope["path"]
        # The page is where a user types the key, and probes have none; neither has a rate limit.
        if path not in _PROBES and path not in self.open_to_all:
            if self.keys:
                client = self._owner_of(_sent_key(scope, headers))
            self.quota.count_request(client)
        scope[CLIENT] = client
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.max_bytes:
            raise _too_large(self.max_bytes)

    def _check_host(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request under a foreign name, and one that a foreign page sends.

        A key is known to no foreign page: with one, the name does not matter.
        """
        is_listed = headers.get("origin") in self.origins
        is_safe = scope.get("method") in _SAFE_METHODS
        refusal = self.hosts.refusal(scope, any_page=is_listed or is_safe)
        if refusal is None or scope["path"] in _PROBES:
            return
        status, reason = refusal
        if status == MISDIRECTED and self._has_key(_sent_key(scope, headers)):
            return
        raise HTTPException(status, reason)

    def _has_key(self, sent_key: str) -> bool:
        """Return whether a key is one of ours; false where there are none."""
        # All keys are compared, so that the time does not tell which one was nearly right.
        matches = [
            hmac.compare_digest(key.encode(), sent_key.encode()) for key in self.keys
        ]
        return any(matches)

    def _owner_of(self, sent_key: str) -> str:
        """Return a name for the owner of a key that does not reveal it.

        Raises:
            BadKeyError: the key is none of ours.
        """
        if not self._has_key(sent_key):
            raise BadKeyError(
                "the API key is missing or wrong; send it as Authorization: Bearer KEY"
            )
        return "key " + hashlib.sha256(sent_key.encode()).hexdigest()[:8]

    def _reserve_storage(self, scope: Scope, resources: ExitStack) -> Reservation:
        """Return the reservation of a request; one that uploads also takes a place."""
        client = scope[CLIENT]
        if scope.get("method") == "POST":
            return resources.enter_context(self.quota.hold_request(client))
        return resources.enter_context(Reservation(self.quota))


def _name_peer(scope: Scope) -> str:
    address, _port = scope.get("client") or ("", 0)
    return name_client(address)


def _sent_key(scope: Scope, headers: Headers) -> str:
    """Return the key of a request; a page's WebSocket can send it only as a subprotocol."""
    for protocol in scope.get("subprotocols", ()):
        if protocol.startswith(_KEY_PROTOCOL):
            return str(protocol.removeprefix(_KEY_PROTOCOL))
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key", "")


def _limit_body(receive: Receive, max_bytes: int, reservation: Reservation) -> Receive:
    """Return a `receive` of ASGI that limits size and time of the body."""
    begin_s = time.monotonic()
    n_bytes = 0
    is_complete = False

    async def receive_limited() -> Message:
        nonlocal n_bytes, is_complete
        # After the body, an application waits for the client to disconnect, as long as it takes.
        if is_complete:
            return await receive()
        delay_s = time.monotonic() - begin_s - n_bytes / _MIN_BYTES_PER_SECOND
        try:
            async with asyncio.timeout(max(0.0, STALL_S - max(0.0, delay_s))):
                message = await receive()
            length = len(message.get("body", b""))
            n_bytes += length
            is_complete = not message.get("more_body", False)
            if n_bytes > max_bytes:
                raise _too_large(max_bytes)
            reservation.take(length)
        except TimeoutError:
            raise HTTPException(
                408,
                f"too little data arrived for {STALL_S:g} s; send the request again",
            ) from None
        except RejectedError as error:
            # FastAPI would answer any other error with 400: it cannot parse the body.
            raise HTTPException(
                error.status, str(error), _error_headers(error)
            ) from None
        return message

    return receive_limited


def _too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the request is larger than {max_bytes >> 20} MiB; send less, or a compressed format"
    )


def _status_of(error: Exception) -> int:
    """Return the HTTP status of an error; 500 for faults of our own."""
    if isinstance(error, RejectedError):
        return error.status
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, OptionError | AudioError):
        return 400
    # Neither may last: the chip is busy, or the model hub does not answer.
    return 503 if isinstance(error, DeviceError | HubError) else 500


def _error_headers(error: Exception) -> dict[str, str]:
    if isinstance(error, HTTPException):
        return dict(error.headers or {})
    if isinstance(error, BadKeyError):
        return {"WWW-Authenticate": "Bearer"}
    retry_s = getattr(error, "retry_s", None)
    return {} if retry_s is None else {"Retry-After": str(retry_s)}


def error_body(error: Exception, param: str | None = None) -> dict[str, Any]:
    """Return the error object of OpenAI's API, without anything of this machine in it."""
    if isinstance(error, TooManyError):
        kind = "requests"
    elif _status_of(error) >= 500:
        kind = "server_error"
    else:
        kind = "invalid_request_error"
    message = (
        str(error.detail) if isinstance(error, HTTPException) else sanitize_error(error)
    )
    code = error.code if isinstance(error, RejectedError) else None
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refuse(
    scope: Scope, error: Exception, metrics: Metrics | None, param: str | None = None
) -> JSONResponse:
    """Count and log a request that failed; return its answer.

    A model logs the requests that it has taken.
    """
    if metrics is not None:
        metrics.count_failure(error)
    body = error_body(error, param)
    status = _status_of(error)
    if not (scope.get(SUBMITTED) or isinstance(error, ClientDisconnectedError)):
        log_refusal(
            Caller(scope.get(CLIENT) or _name_peer(scope), "http"),
            error,
            status=status,
            method=scope.get("method", "WEBSOCKET"),
            path=scope["path"],
            why=body["error"]["message"],
        )
    return JSONResponse(body, status, _error_headers(error))


def answer_failures(app: FastAPI, metrics: Metrics) -> None:
    """Make an application answer all errors as OpenAI's API does."""
    from fastapi.exceptions import RequestValidationError

    async def answer_failure(request: Request, error: Exception) -> JSONResponse:
        param = None
        error = translate_full_storage(error)
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            names = [str(part) for part in first["loc"][1:]]  # after "body" or "query"
            param = names[0] if names else None
            error = HTTPException(400, f"{param or 'the request'}: {first['msg']}")
        return refuse(request.scope, error, metrics, param)

    for kind in (WhisperHailoError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_failure)
