"""Temporary files of what cannot be sought in; they are nameless, and gone when they are closed."""

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
"""Of one recording: a day of sound as on a CD has 14.2 GiB."""

SPARED_SHARE: Final = 0.05
SPARED_BYTES: Final = 1 << 30
"""So much of the temporary folder's file system, or that share if it is less, is left to others."""

SMALL_BYTES: Final = 64 << 20
"""What has no more may have all the space there is."""

PIECE_BYTES: Final = 1 << 20
"""So many are copied at a time."""


def with_descriptor(file: BinaryIO, label: str, resources: ExitStack) -> BinaryIO:
    """The file, or a copy of one that another process could not read, from its start."""
    try:
        file.fileno()
    except io.UnsupportedOperation:
        file.seek(0)
        copy = new_copy(label, resources)
        append(copy, pieces(file), label)
        return copy
    return file


def new_copy(label: str, resources: ExitStack) -> io.FileIO:
    """An empty temporary file."""
    try:
        return resources.enter_context(tempfile.TemporaryFile(buffering=0))
    except OSError as error:
        raise _refusal(label, error) from error


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """All of a file, from where it is."""
    return iter(partial(file.read, PIECE_BYTES), b"")


def append(
    copy: io.FileIO, content: Iterator[bytes], label: str, enough: int = MOST_BYTES + PIECE_BYTES
) -> None:
    """Write to a copy, whose place is its end.

    Args:
        copy: of `new_copy`.
        content: what comes, which may have no end; what was not taken is still in it.
        label: for messages.
        enough: bytes that the copy is to have, or a piece more; all there are if those are less.
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
    """Refuse what has no end, and what would leave no space to other programs."""
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
