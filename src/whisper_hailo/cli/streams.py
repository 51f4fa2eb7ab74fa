"""Standard output and standard error that fail as the program wants them to.

A full disk or a reader that went away is told by standard output once, as an error of ours, whoever
wrote: the help, too. Standard error carries nothing that a result depends on: what it does not take
is dropped.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from whisper_hailo.core.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class ReaderGoneError(Exception):
    """Nobody reads standard output any more, as after `head`: the end of the work, no failure.

    Not an `OSError`, of which Click makes an exit code of its own.
    """


class _Results(io.FileIO):
    """Standard output.

    After a failure it swallows what is left, or the interpreter would fail again when it exits.
    """

    _failed = False

    def write(self, data: ReadableBuffer) -> int:
        """Write some of it.

        Raises:
            OutputError: it does not fit the disk.
            ReaderGoneError: the reader went away.
        """
        if self._failed:
            return memoryview(data).nbytes
        try:
            while (n_bytes := super().write(data)) is None:  # a pipe that does not block is full
                select.select([], [self], [])
            return n_bytes
        except BrokenPipeError as error:
            self._failed = True
            raise ReaderGoneError from error
        except OSError as error:
            self._failed = True
            raise OutputError(
                f"cannot write to standard output ({error.strerror}); free some space"
            ) from error


class _Notes(io.FileIO):
    """Standard error."""

    def write(self, data: ReadableBuffer) -> int:
        """Write it, or do not."""
        try:
            return super().write(data) or memoryview(data).nbytes
        except OSError:
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Give the program streams that it can write to; letters that a terminal lacks are escaped."""
    _fill_descriptors()
    sys.stdout = _text(_Results, 1, sys.stdout)
    sys.stderr = _text(_Notes, 2, sys.stderr)


def _fill_descriptors() -> None:
    """Closed ones swallow what is written: the next file to be opened would take their place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the least that is free


def _text(raw: Callable[..., io.FileIO], descriptor: int, before: object) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw(descriptor, "wb", closefd=False)),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
