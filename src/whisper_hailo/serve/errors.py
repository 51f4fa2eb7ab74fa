"""Errors of requests; none of them ends the program."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from whisper_hailo.core.errors import WhisperHailoError


class RejectedError(WhisperHailoError):
    """A request that is refused, or given up.

    Attributes:
        kind: in one word, for the metrics.
        retry_s: of `Retry-After`; `None` where a retry is of no use.
    """

    kind: str = "turned_away"
    status: int = 503
    retry_s: int | None = None


class BusyError(RejectedError):
    """The queue is full, or the server is about to end."""

    kind, status, retry_s = "busy", 503, 1


class TooManyError(RejectedError):
    """One client asks for too much at once, or too often."""

    kind, status, retry_s = "too_many", 429, 1


class TooLargeError(RejectedError):
    """More bytes or seconds than one request may have."""

    kind, status = "too_large", 413


class DeadlineExceededError(RejectedError):
    """Deadline exceeded."""

    kind, status = "too_late", 503


class StorageFullError(RejectedError):
    """The temporary folder is full."""

    kind, status = "storage_full", 507

    def __init__(self) -> None:
        super().__init__(
            "the server's temporary folder is full; send less, or free some space there"
        )


@contextmanager
def translate_full_storage() -> Iterator[None]:
    """Raise `StorageFullError` for errors that a full temporary folder has caused."""
    try:
        yield
    except Exception as error:
        if is_storage_full(error):
            raise StorageFullError from error
        raise


def is_storage_full(error: BaseException | None) -> bool:
    """Return whether an error came of a full file system."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


class ClientDisconnectedError(RejectedError):
    """The client has left."""

    kind, status = "left", 499


class BadKeyError(RejectedError):
    """The key is missing or wrong."""

    kind, status = "bad_key", 401


class UnknownModelError(RejectedError):
    """A model by this name is not served."""

    kind, status = "unknown_model", 404


def kind_of(error: BaseException) -> str:
    """Return the kind of an error in a word."""
    return error.kind if isinstance(error, RejectedError) else type(error).__name__


def outcome_of(failure: BaseException | None) -> str:
    """Return the outcome of a request in a word, for metrics and logs."""
    return "done" if failure is None else kind_of(failure)


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
