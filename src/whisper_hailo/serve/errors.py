"""Errors of requests; none of them ends the program."""

from __future__ import annotations

import errno
import re
from typing import Final

from whisper_hailo.core.errors import WhisperHailoError


class RejectedError(WhisperHailoError):
    """A request that is refused, or given up.

    Attributes:
        kind: one word for metrics and logs.
        status: HTTP status.
        code: code in OpenAI's error object, where it has one.
        retry_s: value of `Retry-After`; `None` where a retry is of no use.
    """

    kind: str = "rejected"
    status: int = 503
    code: str | None = None
    retry_s: int | None = None


class BusyError(RejectedError):
    """The queue is full, or the server is about to end."""

    kind = "busy"
    retry_s = 1


class TooManyError(RejectedError):
    """One client asks for too much at once, or too often."""

    kind = "too_many"
    status = 429
    code = "rate_limit_exceeded"
    retry_s = 1


class TooLargeError(RejectedError):
    """A request has more bytes or seconds than one may have."""

    kind = "too_large"
    status = 413


class DeadlineExceededError(RejectedError):
    """A request was not done before its deadline."""

    kind = "too_late"


class StorageFullError(RejectedError):
    """The temporary folder is full."""

    kind = "storage_full"
    status = 507


class ClientDisconnectedError(RejectedError):
    """The client disconnected."""

    kind = "left"
    status = 499

    def __init__(self, message: str = "the client disconnected") -> None:
        super().__init__(message)


class BadKeyError(RejectedError):
    """The API key is missing or wrong."""

    kind = "bad_key"
    status = 401
    code = "invalid_api_key"


class UnknownModelError(RejectedError):
    """No model with this name is served."""

    kind = "unknown_model"
    status = 404
    code = "model_not_found"


def translate_full_storage(error: Exception) -> Exception:
    """Return an error, or `StorageFullError` if a full file system caused it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFullError(
                "the server's temporary folder is full; send less, or free some space there"
            )
        cause = cause.__cause__ or cause.__context__
    return error


def outcome_of(error: BaseException | None) -> str:
    """Return the outcome of a request in one word, for metrics and logs."""
    if error is None:
        return "done"
    return error.kind if isinstance(error, RejectedError) else type(error).__name__


_PATH: Final = re.compile(r"(?<![\w:/.])/[^\s'\",;:)]+")
"""The path of a file; the path of a URL follows its host."""

_OPTION: Final = re.compile(r"--([a-z][a-z-]*[a-z])")


def sanitize_error(error: BaseException) -> str:
    """Return the message of an error without paths, with parameters for the command's options."""
    if isinstance(error, RejectedError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no data arrived for too long; try again"
    # The text of any other error may tell a stranger about this machine.
    if not isinstance(error, WhisperHailoError):
        return "internal error; the server's log has the details"
    without_paths = _PATH.sub("...", str(error))
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), without_paths)
