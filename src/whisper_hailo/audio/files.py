"""Opens paths, pipes and file objects as seekable files of the system, at their start.

Another process can read these too. Pipes, and objects without a file descriptor, such as `BytesIO`,
are copied to memory or to temporary files without a name.
"""

from __future__ import annotations

import io
import os
import select
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, cast

from whisper_hailo.audio.decode import SharedFile
from whisper_hailo.audio.readers import open_reader
from whisper_hailo.core.errors import AudioError, display_path

PIPE_PATIENCE_S: Final = 10.0
"""Time-out of a named pipe without data."""

MOST_BYTES: Final = 16 << 30
"""Largest copy: a day of CD sound has 14.2 GiB."""

SPARED_BYTES: Final = 1 << 30
SPARED_SHARE: Final = 0.05
"""Free space that copies leave to other programs: so many bytes, or this share of the temporary
folder's file system if that is less."""

SMALL_BYTES: Final = 64 << 20
"""Smaller copies may take all the space there is."""

PIECE_BYTES: Final = 1 << 20
"""Copied at a time."""

IN_MEMORY_BYTES: Final = 4 << 20
"""Objects up to this size are copied to memory: the disk may be full."""

LOOK_BYTES: Final = 64 << 20
"""How much of a pipe is copied before it must be recognisable as a recording. Some recordings have
pictures before their sound."""

_INDEX_LAST: Final = (
    b"FORM",
    b"caff",
    b"ftyp",
    b"free",
    b"mdat",
    b"moov",
    b"skip",
    b"wide",
)
"""First bytes of AIFF and CAF, and those after a length of MP4: the start alone cannot be opened,
since the index may stand at the end."""


def open_file(
    source: str | Path | BinaryIO, label: str, resources: ExitStack
) -> BinaryIO:
    """Open a path, or wrap an open binary file, which stays the caller's.

    Returns a raw file at its start, not empty, with its own read position; `label` is for messages.
    """
    file = open_seekable(source, label, resources)
    if file is source:
        file = cast(BinaryIO, resources.enter_context(SharedFile(file)))
    _expect_content(file, label)
    return file


def open_seekable(
    source: str | Path | BinaryIO, label: str, resources: ExitStack
) -> BinaryIO:
    """Return a file that can be read several times: the opened one, or a copy."""
    if isinstance(source, str | Path):
        file = resources.enter_context(_open_path(source, label))
        if file.seekable():
            return file
        return new_copy(_read_named_pipe(file, label), label, resources, is_pipe=True)
    return _seekable_object(source, label, resources)


def _seekable_object(source: BinaryIO, label: str, resources: ExitStack) -> BinaryIO:
    """Return a file of the system with the content of an object; itself if it is one."""
    if not source.seekable():
        return new_copy(read_pieces(source), label, resources, is_pipe=True)
    if isinstance(getattr(source, "raw", source), io.FileIO):
        return source
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    if size <= IN_MEMORY_BYTES:
        memory = os.memfd_create("audio")
        copy = resources.enter_context(io.FileIO(memory, "r+"))
        copy.write(source.read())
        return copy
    if isinstance(source, tempfile.SpooledTemporaryFile):
        # An upload: its own file is read in place, since a copy would double its space on disk.
        source.rollover()
        source.flush()
        return cast(BinaryIO, source)
    return new_copy(read_pieces(source), label, resources)


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


def new_copy(
    content: Iterator[bytes], label: str, resources: ExitStack, *, is_pipe: bool = False
) -> io.FileIO:
    """Write content, which may have no end, to a temporary file.

    A pipe that has brought `LOOK_BYTES` must begin with a recording: one that never ends, such as
    `/dev/zero`, is refused before it fills the disk.
    """
    must_look = is_pipe
    try:
        copy = resources.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - of them
        for piece in content:
            _check_size(copy, copy.tell() + len(piece), label)
            _write_all(copy, piece)
            if must_look and copy.tell() >= LOOK_BYTES:
                must_look = False
                _expect_recording(copy, label)
    except OSError as error:
        raise AudioError(
            f"{label} cannot be buffered ({error.strerror}); {_more_space()}"
        ) from error
    return copy


def _write_all(file: io.FileIO, content: bytes) -> None:
    """Write all of the content: a raw file may take less at once."""
    rest = memoryview(content)
    while rest:
        n_written = file.write(rest)
        rest = rest[n_written:]


def _expect_recording(copy: io.FileIO, label: str) -> None:
    """Raise `AudioError` if the beginning of a copy cannot be opened as a recording."""
    with ExitStack() as resources:
        beginning = resources.enter_context(SharedFile(copy))
        head = beginning.read(8)
        beginning.seek(0)
        is_index_last = head[:4] in _INDEX_LAST or head[4:] in _INDEX_LAST
        if not is_index_last:
            open_reader(cast(BinaryIO, beginning), label, resources)


def read_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in pieces of `PIECE_BYTES`."""
    while piece := file.read(PIECE_BYTES):
        yield piece


def _check_size(copy: io.FileIO, size: int, label: str) -> None:
    """Refuse a copy of `size` bytes: without an end, or leaving no space to other programs."""
    if size > MOST_BYTES:
        raise AudioError(
            f"{label} has more than {MOST_BYTES / (1 << 30):g} GiB, expected a recording that "
            "ends; "
            "give a longer one as a file, and caption live sound with whisper-hailo caption"
        )
    disk = os.fstatvfs(copy.fileno())
    free = disk.f_bavail * disk.f_frsize
    size_of_disk = disk.f_blocks * disk.f_frsize
    spared = min(SPARED_BYTES, SPARED_SHARE * size_of_disk)
    if size > SMALL_BYTES and free < spared:
        raise AudioError(
            f"{label} does not fit in the temporary folder: {size >> 20} MiB received, "
            f"{free >> 20} MiB free; {_more_space()}"
        )


def _more_space() -> str:
    # `tempfile` does not know the folder if it could write to none.
    folder = tempfile.tempdir or "the temporary folder"
    return f"free some space in {folder}, set TMPDIR to a folder with more space, or give a file"


def _expect_content(file: BinaryIO | io.FileIO, label: str) -> None:
    if file.seek(0, os.SEEK_END) == 0:
        raise AudioError(
            f"{label} is empty (0 bytes), expected an audio file; record it again"
        )
    file.seek(0)


def _read_named_pipe(file: io.FileIO, label: str) -> Iterator[bytes]:
    """Yield what is written to a named pipe, until its writer closes it."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    while poll.poll(1000 * PIPE_PATIENCE_S):
        piece = os.read(file.fileno(), PIECE_BYTES)
        if not piece:
            return
        yield piece
    raise AudioError(
        f"{label} is a pipe that received no data for {PIPE_PATIENCE_S:g} s, expected a "
        "recording; start the program that writes it, or pipe it in and give -"
    )


def _open_path(path: str | Path, label: str) -> io.FileIO:
    """Open a path without waiting for a named pipe's writer, who may never come."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    try:
        return io.FileIO(path, opener=opener)
    except ValueError:  # a null byte is in it
        raise AudioError(
            f"{display_path(str(path))} is not a valid file name; check the path"
        ) from None
    except OSError as error:
        reason = _OPEN_FAULTS.get(type(error))
        if reason is None:
            reason = f"cannot be opened ({error.strerror}); check the path"
        raise AudioError(f"{label} {reason}") from error


_OPEN_FAULTS: Final[dict[type[OSError], str]] = {
    FileNotFoundError: "does not exist, expected an audio file; check the path",
    IsADirectoryError: "is a directory, expected a file; name the files in it",
    PermissionError: "is not readable by this user; change its permissions",
}
