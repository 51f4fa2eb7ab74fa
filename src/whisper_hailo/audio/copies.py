"""Nameless temporary files for input that cannot be sought in."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import BinaryIO, Final

from whisper_hailo.core.errors import AudioError

MOST_BYTES: Final = 16 << 30
"""Of one recording: a day of CD sound has 14.2 GiB."""

SPARED_SHARE: Final = 0.05
SPARED_BYTES: Final = 1 << 30
"""This much of the temporary folder's file system, or that share if it is less, stays free."""

SMALL_BYTES: Final = 64 << 20
"""Smaller input may take all the space there is."""

PIECE_BYTES: Final = 1 << 20
"""Copied at a time."""


def with_descriptor(file: BinaryIO, label: str, resources: ExitStack) -> BinaryIO:
    """Return the file, or a copy if another process could not read it, at its start."""
    try:
        file.fileno()
    except io.UnsupportedOperation:
        file.seek(0)
        copy = new_copy(label, resources)
        append(copy, pieces(file), label)
        return copy
    return file


def new_copy(label: str, resources: ExitStack) -> io.FileIO:
    """Create an empty temporary file."""
    try:
        return resources.enter_context(tempfile.TemporaryFile(buffering=0))
    except OSError as error:
        raise _refusal(label, error) from error


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file."""
    return iter(partial(file.read, PIECE_BYTES), b"")


def append(
    copy: io.FileIO, content: Iterator[bytes], label: str, enough: int = MOST_BYTES + PIECE_BYTES
) -> None:
    """Write to a copy.

    Args:
        copy: of `new_copy`, at its end.
        content: may have no end; what was not taken stays in it.
        label: for messages.
        enough: stop when the copy has so many bytes.
    """
    try:
        while copy.tell() < enough and (piece := next(content, b"")):
            _check_size(copy, copy.tell() + len(piece), label)
            left = memoryview(piece)
            while left:
                left = left[copy.write(left) :]
    except OSError as error:
        raise _refusal(label, error) from error


def _check_size(copy: io.FileIO, size: int, label: str) -> None:
    """Refuse input without an end, or that would leave no space to other programs."""
    if size > MOST_BYTES:
        raise AudioError(
            f"{label} has more than {MOST_BYTES / (1 << 30):g} GiB, expected a recording that "
            "ends; give a longer one as a file, and live sound to whisper-hailo caption"
        )
    disk = os.fstatvfs(copy.fileno())
    free, spared = disk.f_bavail * disk.f_frsize, SPARED_SHARE * disk.f_blocks * disk.f_frsize
    if size > SMALL_BYTES and free < min(SPARED_BYTES, spared):
        raise AudioError(
            f"{label} does not fit the temporary folder: {size >> 20} MiB have come, and "
            f"{free >> 20} MiB are left; {_more_space()}"
        )


def _refusal(label: str, error: OSError) -> AudioError:
    return AudioError(f"{label} cannot be buffered ({error.strerror}); {_more_space()}")


def _more_space() -> str:
    place = tempfile.tempdir or "the temporary folder"  # it is unknown where none can be written
    return f"free some space in {place}, set TMPDIR to a folder with more, or give a file"
