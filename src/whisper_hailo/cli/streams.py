"""Standard output and standard error with defined failures.

A full disk or a reader that went away is one error of ours, whatever wrote to standard output, such
as the help. What standard error does not take is dropped: no result depends on it.
"""

from __future__ import annotations

import io
import json
import logging
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.atomic_files import add_space_advice
from whisper_hailo.core.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from whisper_hailo.core.timing import Backoff

logger = logging.getLogger(__name__)

MAX_WAITING_BYTES: Final = 1 << 24
"""Bytes that are kept until standard output takes them."""


class ReaderGoneError(Exception):
    """The reader of standard output has closed it, as after `head`: end without a failure.

    Not an `OSError`, which Click turns into an exit code of its own.
    """


class ResultStream(io.FileIO):
    """Standard output.

    After a failure it drops what follows, or the interpreter would fail again at exit.

    Attributes:
        retries: the queue of `patient_results`, within its block.
    """

    _failed = False
    retries: _RetryQueue | None = None

    def write(self, data: ReadableBuffer) -> int:
        """Write some of it, or queue it while retrying."""
        if self._failed:
            return memoryview(data).nbytes
        try:
            if self.retries is not None:
                return self.retries.write(data)
            return self.write_some(data)
        except BrokenPipeError as error:
            self._failed = True
            raise ReaderGoneError from error
        except OSError as error:
            self._failed = True
            raise OutputError(
                f"cannot write to standard output ({error.strerror}); "
                f"{add_space_advice(error, 'write to another place')}"
            ) from error

    def write_some(self, data: ReadableBuffer) -> int:
        """Write some of it as soon as there is room."""
        n_bytes = super().write(data)
        while n_bytes is None:  # a pipe that does not block is full
            select.select([], [self], [])
            n_bytes = super().write(data)
        return n_bytes


class _RetryQueue:
    """Queue of output that could not be written, and its back-off."""

    def __init__(self, out: ResultStream, backoff: Backoff) -> None:
        self._out = out
        self.backoff = backoff
        self._is_reader_gone = False
        self.waiting = bytearray()
        self.n_lost = 0

    def write(self, data: ReadableBuffer) -> int:
        """Queue all of it and write what can be written."""
        n_bytes = memoryview(data).nbytes
        if self._is_reader_gone:
            return n_bytes
        if len(self.waiting) + n_bytes > MAX_WAITING_BYTES:
            self.n_lost += n_bytes
            return n_bytes
        self.waiting += data
        if not self.backoff.is_over:
            return n_bytes
        try:
            self._write_waiting()
        except BrokenPipeError:
            logger.warning("standard output was closed; captions continue elsewhere")
            self._is_reader_gone = True
            self.waiting.clear()
        except OSError as error:
            if not self.backoff.n_failures:
                logger.warning(
                    "cannot write to standard output (%s); captions continue; retrying",
                    error.strerror,
                )
            self.backoff.fail()
        else:
            self.backoff.succeed()
        return n_bytes

    def _write_waiting(self) -> None:
        """Write as much as the reader takes without blocking: a pipe takes so much at once."""
        while self.waiting:
            _, writable, _ = select.select([], [self._out], [], 0)
            if not writable:
                return
            n_bytes = self._out.write_some(bytes(self.waiting[: select.PIPE_BUF]))
            del self.waiting[:n_bytes]


@contextmanager
def patient_results() -> Iterator[None]:
    """Queue and retry writes to standard output that fail or would block, within the block."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, ResultStream):
        yield
        return
    from whisper_hailo.core.timing import Backoff

    queue = _RetryQueue(raw, Backoff())
    raw.retries = queue
    try:
        yield
    finally:
        raw.retries = None
        while queue.waiting:  # for the last time: it may block, or fail
            n_bytes = raw.write(bytes(queue.waiting))
            del queue.waiting[:n_bytes]
    if queue.n_lost:
        raise OutputError(
            f"standard output was blocked for too long and lost {queue.n_lost} "
            "bytes; read it or free some space"
        )


class NoteStream(io.FileIO):
    """Standard error, whose failures are ignored."""

    def write(self, data: ReadableBuffer) -> int:
        """Write it, or drop it."""
        try:
            return super().write(data) or memoryview(data).nbytes
        except OSError:
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Replace the standard streams; characters that a terminal lacks are escaped.

    Closed descriptors are opened, or the next file to be opened would take their place.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    sys.stdout = open_text_stream(ResultStream, 1, sys.stdout)
    sys.stderr = open_text_stream(NoteStream, 2, sys.stderr)


def open_text_stream(
    raw: Callable[..., io.FileIO], descriptor: int, before: object
) -> io.TextIOWrapper:
    """Return a text stream over a descriptor, in the encoding of the one before."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw(descriptor, "wb", closefd=False)),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )


def emit(text: str) -> None:
    """Write text to standard output, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def emit_json(value: dict[str, Any], *, indent: int | None = None) -> None:
    """Write one JSON object in ASCII and a line end."""
    emit(json.dumps(value, allow_nan=False, indent=indent) + "\n")
