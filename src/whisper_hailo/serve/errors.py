"""Errors of requests; none of them ends the program."""

from __future__ import annotations

import errno
import re
from typing import Final

from whisper_hailo.core.errors import WhisperHailoError


class RejectedError(WhisperHailoError):
    """A request that is refused, or given up.

    Attributes:
        kind: in one word, for metrics and logs.
        status: of HTTP.
        code: of OpenAI's error object, where it has one.
        retry_s: of `Retry-After`; `None` where a retry is of no use.
    """

    kind: str = "turned_away"
    status: int = 503
    code: str | None = None
    retry_s: int | None = None


class BusyError(RejectedError):
    """The queue is full, or the server is about to end."""

    kind, retry_s = "busy", 1


class TooManyError(RejectedError):
    """One client asks for too much at once, or too often."""

    kind, status, code, retry_s = "too_many", 429, "rate_limit_exceeded", 1


class TooLargeError(RejectedError):
    """More bytes or seconds than one request may have."""

    kind, status = "too_large", 413


class DeadlineExceededError(RejectedError):
    """Deadline exceeded."""

    kind = "too_late"


class StorageFullError(RejectedError):
    """The temporary folder is full."""

    kind, status = "storage_full", 507


class ClientDisconnectedError(RejectedError):
    """The client has left."""

    kind, status = "left", 499

    def __init__(self, message: str = "the client left") -> None:
        super().__init__(message)


class BadKeyError(RejectedError):
    """The key is missing or wrong."""

    kind, status, code = "bad_key", 401, "invalid_api_key"


class UnknownModelError(RejectedError):
    """A model by this name is not served."""

    kind, status, code = "unknown_model", 404, "model_not_found"


def translate_full_storage(error: Exception) -> Exception:
    """Return an error, or `StorageFullError` if it came of a full file system."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFullError(
                "the server's temporary folder is full; send less, or free some space there"
            )
        cause = cause.__cause__ or cause.__context__
    return error


def outcome_of(error: BaseException | None) -> str:
    """Return the outcome of a request in a word, for metrics and logs."""
    if error is None:
        return "done"
    return error.kind if isinstance(error, RejectedError) else type(error).__name__


_PATH: Final = re.compile(r"(?<![\w:/.])/[^\s'\",;:)]+")
"""Of a file: it begins where no address of the web has its host."""

_FLAG: Final = re.compile(r"--([a-z][a-z-]*[a-z])")


def sanitize_error(error: BaseException) -> str:
    """Return the message of an error without paths, with parameters for the command's options."""
    if isinstance(error, RejectedError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "nothing came for too long; ask again"
    if not isinstance(error, WhisperHailoError):
        return "internal error; the server's log says more"
    plain = _PATH.sub("...", str(error))
    return _FLAG.sub(lambda found: found[1].replace("-", "_"), plain)
