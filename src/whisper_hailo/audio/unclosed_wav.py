"""WAV files whose writer never came back to say how long they are: a kill, or a power cut."""

from __future__ import annotations

import io
import os
import struct
from typing import BinaryIO, Final, cast

_CHUNK: Final = struct.Struct("<4sI")
_FIRST_CHUNK: Final = 12
_UNKNOWN: Final = 0xFF
"""In all four bytes, the length of those that are streamed: libsndfile reads all there is."""

_MOST_HEADER: Final = 1 << 16
"""Chunks before the samples are looked at so far; broken files have endless ones."""


def as_closed(file: BinaryIO) -> BinaryIO:
    """A WAV file, with its samples to its end where its header says that there are none.

    Args:
        file: a raw one, at its start.

    Returns:
        the file itself, or what reads it; at its start.
    """
    place = _place_of_length(file)
    file.seek(0)
    return file if place is None else cast(BinaryIO, _Closed(file, place))


def _place_of_length(file: BinaryIO) -> int | None:
    """Where the length of the samples is 0 although there are some."""
    end = file.seek(0, os.SEEK_END)
    at = _FIRST_CHUNK
    while at < _MOST_HEADER:
        kind, size = _chunk(file, at)
        if kind == b"data":
            return at + 4 if size == 0 and _is_sound(file, at + _CHUNK.size, end) else None
        at += _CHUNK.size + size + size % 2
    return None


def _is_sound(file: BinaryIO, at: int, end: int) -> bool:
    """Whether there is anything behind the header but a last chunk of tags."""
    _, size = _chunk(file, at)
    return at + _CHUNK.size + size not in (end, end - 1)


def _chunk(file: BinaryIO, at: int) -> tuple[bytes, int]:
    """Name and length of what is there; nothing, and far, where the file ends."""
    file.seek(at)
    head = file.read(_CHUNK.size)
    return _CHUNK.unpack(head) if len(head) == _CHUNK.size else (b"", _MOST_HEADER)


class _Closed(io.RawIOBase):
    """A file with another length in its header.

    Args:
        file: a raw one.
        place: of the length.
    """

    def __init__(self, file: BinaryIO, place: int) -> None:
        self._file = cast(io.RawIOBase, file)
        self._place = place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # so it is called
        """Read on, with the other length where it belongs."""
        begin = self._file.tell()
        n_read = self._file.readinto(buffer) or 0
        read = memoryview(buffer).cast("B")  # soundfile's own kind takes no numbers
        for at in range(max(self._place, begin), min(self._place + 4, begin + n_read)):
            read[at - begin] = _UNKNOWN
        return n_read
