"""Errors as clients of OpenAI's API expect them, without anything of this machine in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Scope

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError

from whisper_hailo.core.errors import AudioError, DeviceError, OptionError, WhisperHailoError
from whisper_hailo.http.hosts import address_of
from whisper_hailo.serve.errors import (
    BadKeyError,
    ClientDisconnectedError,
    RejectedError,
    StorageFullError,
    TooManyError,
    UnknownModelError,
    is_storage_full,
    sanitize_error,
)
from whisper_hailo.serve.logs import log_refusal

_CODES: Final[dict[type[Exception], str]] = {
    BadKeyError: "invalid_api_key",
    TooManyError: "rate_limit_exceeded",
    UnknownModelError: "model_not_found",
}
CLIENT: Final = "whisper_hailo.client"
"""Key of the client's name in a request's scope."""

SUBMITTED: Final = "whisper_hailo.submitted"
"""Key in the scope of a request that the engine has taken."""

STORED: Final = "whisper_hailo.stored"
"""Key of the reservation for what a request stores, in its scope."""

_OWN_FAULT: Final = 500
_NOT_THERE: Final = 503


def status_of(error: Exception) -> int:
    """The status of HTTP that tells of it; 500 for faults of our own."""
    if isinstance(error, RejectedError):
        return error.status
    if isinstance(error, OptionError | AudioError):
        return 400
    if isinstance(error, DeviceError):
        return _NOT_THERE
    return error.status_code if isinstance(error, HTTPException) else _OWN_FAULT


def body_of(error: Exception, param: str | None = None) -> dict[str, Any]:
    """The object of OpenAI's API."""
    status = status_of(error)
    kind = "server_error" if status >= _OWN_FAULT else "invalid_request_error"
    if isinstance(error, TooManyError):
        kind = "requests"
    code = _CODES.get(type(error))
    message = str(error.detail) if isinstance(error, HTTPException) else sanitize_error(error)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def response_of(error: Exception, param: str | None = None) -> JSONResponse:
    """The answer that tells of it, with `Retry-After` and `WWW-Authenticate` where they belong."""
    headers = {}
    if isinstance(error, RejectedError) and error.retry_s is not None:
        headers["Retry-After"] = str(error.retry_s)
    if isinstance(error, BadKeyError):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, HTTPException) and error.headers:
        headers |= dict(error.headers)
    return JSONResponse(body_of(error, param), status_of(error), headers)


def _first_complaint(error: RequestValidationError) -> tuple[str | None, str]:
    """The parameter that is wrong, and what is wrong with it."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"][1:]]
    param = place[0] if place else None
    return param, f"{param or 'the request'}: {first['msg']}"


def log_refused_request(scope: Scope, error: Exception) -> None:
    """Log a request that failed before the engine took it, which logs all others itself."""
    if scope.get(SUBMITTED) or isinstance(error, ClientDisconnectedError):
        return
    client = scope.get(CLIENT) or address_of((scope.get("client") or ("", 0))[0])
    why, method = body_of(error)["error"]["message"], scope.get("method", "WEBSOCKET")
    status, path = status_of(error), scope["path"]
    log_refusal("http", client, error, why, status=status, method=method, path=path)


def answer_failures(app: FastAPI) -> None:
    """Have an application answer all errors so."""
    from fastapi.exceptions import RequestValidationError

    async def failed(request: Request, error: Exception) -> JSONResponse:
        param = None
        if is_storage_full(error):
            error = StorageFullError()
        request.app.state.metrics.failed(error)
        if isinstance(error, RequestValidationError):
            param, message = _first_complaint(error)
            error = HTTPException(400, message)
        log_refused_request(request.scope, error)
        return response_of(error, param)

    for kind in (WhisperHailoError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, failed)
