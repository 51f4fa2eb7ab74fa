"""Headers of WAV files that were never completed, or that promise more than there is."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from whisper_hailo.audio.decode import SharedFile

_CHUNK: Final = struct.Struct("<4sI")
"""A chunk's kind and its length."""

_MOST_HEADER: Final = 1 << 16
"""Limit of chunks before the samples; broken files have endless ones."""

_UNKNOWN_SIZE: Final = b"\xff" * 4
"""Length of streamed files, which libsndfile reads to the end, and of RF64, where `ds64` has it."""

_STREAMED_BYTES: Final = 0x7F000000
"""Programs that write to a pipe promise this or more: 0x7FFFF000, 0x80000000, 0xFFFFFFFF."""

_BYTES_PER_SECOND: Final = slice(8, 12)
"""Place in the chunk `fmt `."""

_TRUE_SIZE: Final = slice(8, 16)
"""Place of the length of the samples in RF64's chunk `ds64`."""


_LONGEST_TAIL_S: Final = 0.5
"""Less behind the samples is rubbish that some program left, rather than sound."""


@dataclass(frozen=True, slots=True)
class WavFile:
    """A WAV file at its start, with what its header gets wrong.

    Attributes:
        file: as libsndfile reads all of it; its header is corrected where it was never completed.
        promised_s: seconds that a truncated file's header promises; `None` for a complete file, or
            where the header of a stream promises nothing.
        unfinished_s: seconds after which the header ends although the samples go on; `None` where
            they do not. A recorder that crashed had last written its header then.
    """

    file: BinaryIO
    promised_s: float | None = None
    unfinished_s: float | None = None


def complete_header(file: BinaryIO) -> WavFile:
    """Compare a WAV file's header with its length."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(_MOST_HEADER + 2 * _CHUNK.size)
    file.seek(0)
    chunks = _find_chunks(head)
    if b"data" not in chunks:
        return WavFile(file)
    start, size = chunks[b"data"]
    stop = start + size
    rate = 0
    if b"fmt " in chunks:
        fmt = head[chunks[b"fmt "][0] :]
        rate = int.from_bytes(fmt[_BYTES_PER_SECOND], "little")
    is_riff = head.startswith(b"RIFF")
    if size == 0 and is_riff and _holds_samples(head, start, end):
        return WavFile(_with_unknown_length(file, start))
    has_tail = is_riff and rate > 0 and end - stop > _LONGEST_TAIL_S * rate
    if has_tail and not _ends_in_chunks(file, stop + size % 2, end):
        return WavFile(_with_unknown_length(file, start), unfinished_s=size / rate)
    if size == int.from_bytes(_UNKNOWN_SIZE, "little") and b"ds64" in chunks:
        sizes = head[chunks[b"ds64"][0] :]
        size = int.from_bytes(sizes[_TRUE_SIZE], "little")
    elif size >= _STREAMED_BYTES:
        size = 0
    if size > end - start and rate:
        return WavFile(file, promised_s=size / rate)
    return WavFile(file)


def _find_chunks(head: bytes) -> dict[bytes, tuple[int, int]]:
    """Return where the content of each chunk starts and its length, up to the samples."""
    chunks: dict[bytes, tuple[int, int]] = {}
    position = 12  # behind `RIFF`, a length and `WAVE`
    last = min(_MOST_HEADER, len(head) - _CHUNK.size + 1)
    while position < last and b"data" not in chunks:
        kind, size = _CHUNK.unpack_from(head, position)
        position += _CHUNK.size
        chunks[kind] = (position, size)
        position += size + size % 2  # chunks start at even positions
    return chunks


def _holds_samples(head: bytes, start: int, end: int) -> bool:
    """Return whether samples follow an empty chunk `data`, and not just a last chunk of tags."""
    following = head[start : start + _CHUNK.size]
    if len(following) < _CHUNK.size:
        return True
    _, size = _CHUNK.unpack(following)
    end_of_tags = start + _CHUNK.size + size
    # The byte that makes a length even may be missing.
    return end_of_tags not in (end, end - 1)


def _ends_in_chunks(file: BinaryIO, position: int, end: int) -> bool:
    """Return whether whole chunks fill the file from a position to its end; go to its start."""
    while position + _CHUNK.size <= end:
        file.seek(position)
        kind, size = _CHUNK.unpack(file.read(_CHUNK.size))
        is_name = kind.isascii() and kind.decode().isprintable()
        if not is_name:
            break
        position += _CHUNK.size + size + size % 2
    file.seek(0)
    # The byte that makes a length even may be missing.
    return position in (end, end + 1)


def _with_unknown_length(file: BinaryIO, start: int) -> BinaryIO:
    """Return the file with an unknown length of its samples, which start at this position."""
    length_position = start - len(_UNKNOWN_SIZE)
    return cast(BinaryIO, _UnknownLength(file, length_position))


class _UnknownLength(SharedFile):
    """A WAV file whose header says, `length_position` bytes from its start, that it is unknown.

    A recorder that was killed leaves a length of 0, or that of its last save, and libsndfile would
    read no more.
    """

    def __init__(self, file: BinaryIO, length_position: int) -> None:
        super().__init__(file)
        self._length_position = length_position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # so it is called
        begin = self.tell()
        n_read = super().readinto(buffer)
        content = memoryview(buffer).cast("B")  # soundfile's own kind takes no numbers
        first = max(begin, self._length_position)
        length_end = self._length_position + len(_UNKNOWN_SIZE)
        end = min(begin + n_read, length_end)
        for position in range(first, end):
            content[position - begin] = _UNKNOWN_SIZE[0]
        return n_read
