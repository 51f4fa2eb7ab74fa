"""MP3 files whose header gives no length, or too short a one.

Without a Xing header the decoder takes the bit rate of the first frame for that of all. Where the
rate varies that is wrong, by any factor: libsndfile stops at the length that it expects, or expects
samples that do not come. Files that were joined end to end have the header of the first one.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from whisper_hailo.audio.decode import SharedFile

_PIECE_BYTES: Final = 1 << 20

_OVERLAP_BYTES: Final = 4096
"""More than a frame has, and the head of the next one."""

_SYNC: Final = b"\xff"
"""First byte of every frame."""

_KBPS_1: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0)
_KBPS_2: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0)
"""Bit rates of layer III by their index; 0 is free or forbidden."""

_RATES_HZ: Final = (44_100, 48_000, 32_000)
"""Sample rates of MPEG-1; those of MPEG-2 are half, those of 2.5 a quarter."""

_RATE_DIVISORS: Final = {0b11: 1, 0b10: 2, 0b00: 4}
"""By the version bits of MPEG-1, 2 and 2.5."""

_SIDE_BYTES: Final = {
    (True, False): 32,
    (True, True): 17,
    (False, False): 17,
    (False, True): 9,
}
"""Of a frame of MPEG-1 or a later one, with two channels or one."""

_HEADER_KBPS: Final = 64
"""Bit rate of a frame that has room for a Xing header at every sample rate."""

_TOLERANCE: Final = 2
"""Frames that programs count differently: the header's own, and one that is cut off."""


@dataclass(frozen=True, slots=True)
class _FrameKind:
    """What all layer III frames of a file have in common.

    Attributes:
        second_byte: version and layer, with the bit of frames without a checksum.
        n_side_bytes: bytes of a frame between its head and a Xing header.
        lengths: bytes of a frame by its third byte; 0 if it is none of this kind.
    """

    second_byte: int
    n_side_bytes: int
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, head: bytes) -> _FrameKind | None:
        """Return the kind of a frame by its first four bytes; `None` if it is no frame."""
        if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
            return None
        divisor = _RATE_DIVISORS.get(head[1] >> 3 & 3)
        rate_index = head[2] >> 2 & 3
        if divisor is None or rate_index == len(_RATES_HZ):
            return None
        is_mpeg_1 = divisor == 1
        rate_hz = _RATES_HZ[rate_index] // divisor
        lengths = []
        for third_byte in range(256):
            kbps = (_KBPS_1 if is_mpeg_1 else _KBPS_2)[third_byte >> 4]
            n_bytes = (144_000 if is_mpeg_1 else 72_000) * kbps // rate_hz
            is_same_rate = third_byte >> 2 & 3 == rate_index
            padding = third_byte >> 1 & 1
            lengths.append(n_bytes + padding if kbps and is_same_rate else 0)
        is_mono = head[3] >> 6 == 3
        n_side_bytes = _SIDE_BYTES[is_mpeg_1, is_mono]
        return cls(head[1] | 1, n_side_bytes, tuple(lengths))

    def length_at(self, content: bytes, position: int) -> int:
        """Return the bytes of the frame at a position; 0 if there is none."""
        if position + 3 > len(content) or content[position] != 0xFF:
            return 0
        if content[position + 1] | 1 != self.second_byte:
            return 0
        return self.lengths[content[position + 2]]


def complete_length(file: BinaryIO) -> BinaryIO:
    """Return an MP3 file, at its start, as libsndfile reads all of it.

    A header is put before it where there is none, or where it gives less than there is.
    """
    start = _end_of_tags(file, 0)
    head = _read_at(file, start, _OVERLAP_BYTES)
    kind = _FrameKind.of(head)
    first_length = kind.length_at(head, 0) if kind else 0
    if kind is None or not kind.length_at(head, first_length):
        file.seek(0)
        return file
    n_promised = _promised_frames(head[:first_length], kind)
    if n_promised is not None:
        start += first_length
    n_frames = _count_frames(file, start, kind)
    file.seek(0)
    if n_promised is not None and n_promised >= n_frames - _TOLERANCE:
        return file
    header = _make_header(head, kind, n_frames)
    return cast(BinaryIO, _NewHeader(file, header, start))


def _read_at(file: BinaryIO, position: int, n_bytes: int) -> bytes:
    return os.pread(file.fileno(), n_bytes, position)


def _end_of_tags(file: BinaryIO, position: int) -> int:
    """Return where the ID3 tags at a position end."""
    while True:
        head = _read_at(file, position, 10)
        if len(head) < 10 or not head.startswith(b"ID3"):
            return position
        size = 0
        for byte in head[6:]:
            size = size << 7 | byte & 0x7F
        position += size + 10


def _promised_frames(frame: bytes, kind: _FrameKind) -> int | None:
    """Return how many frames follow by the header in the first one; `None` if it has none."""
    tag = frame[4 + kind.n_side_bytes :]
    if tag[:4] in {b"Xing", b"Info"}:
        has_count = bool(int.from_bytes(tag[4:8]) & 1)
        return int.from_bytes(tag[8:12]) if has_count else 0
    if frame[36:40] == b"VBRI":
        return int.from_bytes(frame[50:54])
    return None


def _count_frames(file: BinaryIO, position: int, kind: _FrameKind) -> int:
    """Return the number of frames from a position on; bytes between them are skipped."""
    n_frames = 0
    while piece := _read_at(file, position, _PIECE_BYTES):
        is_last = len(piece) < _PIECE_BYTES
        # A frame at the end of a piece is read again, with the next one, which confirms it.
        end = len(piece) if is_last else len(piece) - _OVERLAP_BYTES
        index = 0
        while index < end:
            length = kind.length_at(piece, index)
            if length:
                n_frames += 1
                index += length
            else:
                index = _find_frame(file, position, piece, index, kind)
        position += index
    return n_frames


def _find_frame(
    file: BinaryIO, position: int, piece: bytes, index: int, kind: _FrameKind
) -> int:
    """Return where in a piece, which is at a position, the next frame or the end is.

    What is at the index is no frame.
    """
    # A picture in the tags of a joined file may look like frames.
    if piece.startswith(b"ID3", index):
        return _end_of_tags(file, position + index) - position
    index += 1
    while (index := piece.find(_SYNC, index)) >= 0:
        length = kind.length_at(piece, index)
        if length and kind.length_at(piece, index + length):
            return index
        index += 1
    return len(piece)


def _make_header(head: bytes, kind: _FrameKind, n_frames: int) -> bytes:
    """Return a frame with a Xing header, given the head of another frame."""
    is_mpeg_1 = _RATE_DIVISORS[head[1] >> 3 & 3] == 1
    rate_index = (_KBPS_1 if is_mpeg_1 else _KBPS_2).index(_HEADER_KBPS)
    third_byte = rate_index << 4 | head[2] & 0b1100
    header = bytearray(kind.lengths[third_byte])
    header[:4] = (0xFF, head[1] | 1, third_byte, head[3])
    tag = b"Xing" + (1).to_bytes(4) + n_frames.to_bytes(4)
    start = 4 + kind.n_side_bytes
    header[start : start + len(tag)] = tag
    return bytes(header)


class _NewHeader(SharedFile):
    """An MP3 file from a position on, behind another header."""

    def __init__(self, file: BinaryIO, header: bytes, start: int) -> None:
        super().__init__(file)
        self._header = header
        self._shift = start - len(header)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset -= self._shift
        return super().seek(offset, whence)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # so it is called
        begin = self.tell()
        rest = self._header[begin:]
        if not rest:
            n_read = os.preadv(self.fileno(), [buffer], begin + self._shift)
        else:
            content = memoryview(buffer).cast("B")
            n_read = min(len(rest), len(content))
            content[:n_read] = rest[:n_read]
        self.seek(begin + n_read)
        return n_read
