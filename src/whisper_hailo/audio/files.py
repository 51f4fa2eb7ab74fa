"""Opens paths, pipes and file objects as seekable files at their start."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, cast

from whisper_hailo.audio.copies import PIECE_BYTES, append, new_copy, pieces
from whisper_hailo.audio.decode import SharedFile
from whisper_hailo.audio.readers import open_reader
from whisper_hailo.core.errors import AudioError, display_path

PIPE_PATIENCE_S: Final = 10.0
"""Time-out of a named pipe without data."""

LOOK_BYTES: Final = 64 << 20
"""After this much of a pipe, check that it starts a recording; some have pictures first."""

_INDEX_LAST: Final = (b"FORM", b"caff", b"ftyp", b"free", b"mdat", b"moov", b"skip", b"wide")
"""First bytes, or those after a length, of AIFF, CAF and MP4, whose start cannot be opened
alone."""


class _PlaceInObject(SharedFile):
    """The same for objects that are not system files, such as `BytesIO` or an open archive."""

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")

    def _end(self) -> int:
        return self._file.seek(0, os.SEEK_END)

    def _read(self, buffer: memoryview) -> int:
        self._file.seek(self._at)
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def open_file(source: str | Path | BinaryIO, label: str, resources: ExitStack) -> BinaryIO:
    """Open a path, or wrap an open binary file, which stays the caller's.

    Args:
        source: a path, or an open binary file.
        label: for messages.
        resources: close what is opened here.

    Returns:
        a raw file at its start, not empty, with its own read position.
    """
    file = open_seekable(source, label, resources)
    if file is source:
        on_disk = isinstance(getattr(file, "raw", file), io.FileIO)
        place = SharedFile(file) if on_disk else _PlaceInObject(file)
        file = cast(BinaryIO, resources.enter_context(place))
    _expect_content(file, label)
    return file


def _expect_content(file: BinaryIO | io.FileIO, label: str) -> None:
    if file.seek(0, os.SEEK_END) == 0:
        raise AudioError(f"{label} is empty (0 bytes), expected an audio file; record it again")
    file.seek(0)


def find_fault(path: Path, label: str) -> AudioError | None:
    """Return the error of a file without reading it; `None` for a pipe or a device."""
    if os.path.exists(path) and not os.path.isfile(path):
        return None
    try:
        with _open_path(path, label) as file:
            _expect_content(file, label)
    except AudioError as error:
        return error
    return None


def open_seekable(source: str | Path | BinaryIO, label: str, resources: ExitStack) -> BinaryIO:
    """Return a file that can be read several times: the opened one, or a copy of a pipe."""
    if not isinstance(source, str | Path):
        return source if source.seekable() else _copy_of_pipe(pieces(source), label, resources)
    file = resources.enter_context(_open_path(source, label))
    return file if file.seekable() else _copy_of_pipe(_named_pipe(file, label), label, resources)


def _copy_of_pipe(content: Iterator[bytes], label: str, resources: ExitStack) -> io.FileIO:
    """Copy a pipe to a temporary file; refuse early what is not a recording."""
    copy = new_copy(label, resources)
    append(copy, content, label, LOOK_BYTES)
    if copy.tell() >= LOOK_BYTES:
        with SharedFile(copy) as begin:
            head = begin.read(8)
            begin.seek(0)
            if head[:4] not in _INDEX_LAST and head[4:] not in _INDEX_LAST:
                open_reader(cast(BinaryIO, begin), label).close()
        append(copy, content, label)
    return copy


def _named_pipe(file: BinaryIO, label: str) -> Iterator[bytes]:
    """Yield what is written to a named pipe, until its writer closes it."""
    coming = select.poll()
    coming.register(file, select.POLLIN)
    while coming.poll(1000 * PIPE_PATIENCE_S):
        piece = os.read(file.fileno(), PIECE_BYTES)
        if not piece:
            return
        yield piece
    raise AudioError(
        f"{label} is a pipe that received no data for {PIPE_PATIENCE_S:g} s, expected a "
        "recording; start the program that writes it, or pipe it in and give -"
    )


def _open_path(path: str | Path, label: str) -> io.FileIO:
    """Open a path without waiting for a named pipe's writer."""
    cause: OSError
    try:
        return io.FileIO(path, opener=_at_once)
    except FileNotFoundError as error:
        reason, cause = "does not exist, expected an audio file; check the path", error
    except IsADirectoryError as error:
        reason, cause = "is a directory, expected a file; name the files in it", error
    except PermissionError as error:
        reason, cause = "may not be read by this user; change its permissions", error
    except ValueError:
        raise AudioError(f"{display_path(str(path))} is no file name; check the path") from None
    except OSError as error:
        reason, cause = f"cannot be opened ({error.strerror}); check the path", error
    raise AudioError(f"{label} {reason}") from cause


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
