"""WAV files whose headers are wrong about their length: of killed recorders, and truncated ones."""

from __future__ import annotations

import io
import os
import struct
from typing import BinaryIO, Final, cast

_CHUNK: Final = struct.Struct("<4sI")
_FIRST_CHUNK: Final = 12
_UNKNOWN: Final = 0xFF
"""In all four bytes, the length of those that are streamed: libsndfile reads all there is."""

_UNKNOWN_SIZE: Final = 0xFFFFFFFF

_STREAMED_BYTES: Final = 0x7F000000
"""Programs that write to a pipe promise this or more: 0x7FFFF000, 0x80000000, 0xFFFFFFFF."""

_RATE_AT: Final = 16
"""Of the bytes a second, in the chunk of the format."""

_SIZE_AT: Final = 16
"""Of the true length, in the chunk `ds64` of RF64."""

_MOST_HEADER: Final = 1 << 16
"""Chunks before the samples are looked at so far; broken files have endless ones."""


def as_closed(file: BinaryIO) -> BinaryIO:
    """A WAV file, with its samples to its end where its header says that there are none.

    Returns:
        the file itself, or what reads it; at its start.
    """
    end = file.seek(0, os.SEEK_END)
    at, size = _find_chunks(file).get(b"data", (0, -1))
    is_unclosed = size == 0 and _is_sound(file, at + _CHUNK.size, end)
    file.seek(0)
    return cast(BinaryIO, _Closed(file, at + 4)) if is_unclosed else file


def promised_s(file: BinaryIO) -> float | None:
    """Seconds of sound by the header of a WAV file that has less.

    Returns:
        `None` where all is there, or the header of a stream promises nothing.
    """
    end = file.seek(0, os.SEEK_END)
    chunks = _find_chunks(file)
    at, size = chunks.get(b"data", (end, 0))
    if size == _UNKNOWN_SIZE and b"ds64" in chunks:
        size = _number(file, chunks[b"ds64"][0] + _SIZE_AT, 8)
    elif size >= _STREAMED_BYTES:
        size = 0
    bytes_a_second = _number(file, chunks[b"fmt "][0] + _RATE_AT, 4) if b"fmt " in chunks else 0
    file.seek(0)
    is_short = size > end - at - _CHUNK.size
    return size / bytes_a_second if is_short and size and bytes_a_second else None


def _find_chunks(file: BinaryIO) -> dict[bytes, tuple[int, int]]:
    """Place and length of each kind of chunk, up to the samples."""
    chunks: dict[bytes, tuple[int, int]] = {}
    at = _FIRST_CHUNK
    while at < _MOST_HEADER and b"data" not in chunks:
        kind, size = _chunk(file, at)
        chunks[kind] = (at, size)
        at += _CHUNK.size + size + size % 2
    return chunks


def _number(file: BinaryIO, at: int, n_bytes: int) -> int:
    file.seek(at)
    return int.from_bytes(file.read(n_bytes), "little")


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
    """A file with another length in its header."""

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
