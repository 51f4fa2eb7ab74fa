"""Readers of one audio file each: libsndfile, samples in memory, or `foreign`.

They give the file's own rate and channels; `stream` makes 16 kHz mono of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO, Final, Protocol, cast

import numpy as np

from whisper_hailo.audio.decode import READ_FRAMES, UNKNOWN_LENGTH
from whisper_hailo.audio.foreign import BrokenOffError, ForeignReader
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

_CHUNK: Final = struct.Struct("<4sI")
_FIRST_CHUNK: Final = 12
_UNKNOWN: Final = 0xFF
"""In all four bytes, the length of streamed files: libsndfile reads to the end."""

_UNKNOWN_SIZE: Final = 0xFFFFFFFF

_STREAMED_BYTES: Final = 0x7F000000
"""Programs that write to a pipe promise this or more: 0x7FFFF000, 0x80000000, 0xFFFFFFFF."""

_RATE_AT: Final = 16
"""Offset of the bytes per second in the format chunk."""

_SIZE_AT: Final = 16
"""Offset of the true length in RF64's chunk `ds64`."""

_MOST_HEADER: Final = 1 << 16
"""Limit of chunks before the samples; broken files have endless ones."""


def complete_header(file: BinaryIO) -> BinaryIO:
    """Return a WAV file at its start, corrected if its header was never completed."""
    end = file.seek(0, os.SEEK_END)
    at, size = _find_chunks(file).get(b"data", (0, -1))
    is_unclosed = size == 0 and _is_sound(file, at + _CHUNK.size, end)
    file.seek(0)
    return cast(BinaryIO, _Closed(file, at + 4)) if is_unclosed else file


def promised_duration_s(file: BinaryIO) -> float | None:
    """Return the seconds that a truncated WAV file's header promises.

    `None` for a complete file, or where the header of a stream promises nothing.
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
    """Return position and length of each kind of chunk, up to the samples."""
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
    """Return whether more than a last chunk of tags follows the header."""
    _, size = _chunk(file, at)
    return at + _CHUNK.size + size not in (end, end - 1)


def _chunk(file: BinaryIO, at: int) -> tuple[bytes, int]:
    """Return the name and length of a chunk; empty, and far, at the end of the file."""
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
        begin = self._file.tell()
        n_read = self._file.readinto(buffer) or 0
        read = memoryview(buffer).cast("B")  # soundfile's own kind takes no numbers
        for at in range(max(self._place, begin), min(self._place + 4, begin + n_read)):
            read[at - begin] = _UNKNOWN
        return n_read


_PLAIN: Final = (b"RIFF", b"RIFX", b"RF64", b"riff", b"fLaC", b"OggS", b".snd")
"""First bytes of WAV, Wave64, FLAC, OGG and AU files."""

_MPEG: Final = (b"ID3", *(bytes([0xFF, second]) for second in range(0xE0, 0x100)))
"""First bytes of MP3 files: of tags, or of a frame, whose first eleven bits are ones."""


class Reader(Protocol):
    """A decoder of one file: native rate, native channels."""

    sample_rate_hz: int
    n_channels: int
    n_frames: int | None

    def blocks(self) -> Iterator[FloatArray]:
        """Yield `(n, n_channels)` float32; raises `BrokenOffError` where the file breaks off."""

    def close(self) -> None:
        """Release the decoder; the file stays the caller's."""


def open_reader(file: BinaryIO, label: str) -> Reader:
    """Return libsndfile's reader for the plain formats, else that of another process.

    Broken files of these formats do libsndfile no harm (`docs/errors.md`). For some others it
    prints on standard output, and FFmpeg knows so many that one will crash it.
    """
    import soundfile

    head = file.read(12)
    file.seek(0)
    mpeg = head.startswith(_MPEG)
    aiff = head[:4] == b"FORM" and head[8:] in {b"AIFF", b"AIFC"}
    wav_s = promised_duration_s(file) if head.startswith((b"RIFF", b"RF64")) else None
    if head.startswith(b"RIFF"):
        file = complete_header(file)
    if mpeg or aiff or head.startswith(_PLAIN):
        with contextlib.suppress(soundfile.SoundFileError):
            return _SoundfileReader(file, mpeg=mpeg, promised_s=wav_s)
    return ForeignReader(file, label)


class _SoundfileReader:
    """libsndfile, through its file descriptor or Python's file methods."""

    def __init__(self, file: BinaryIO, *, mpeg: bool, promised_s: float | None) -> None:
        import soundfile

        self._quiet = mute_mpg123 if mpeg else contextlib.nullcontext
        self._error = soundfile.SoundFileError
        # A descriptor keeps soundfile from judging by the extension, and is faster.
        target = file.fileno() if isinstance(file, io.FileIO) else file
        with self._quiet():
            self._file = soundfile.SoundFile(target, closefd=False)
        # Else soundfile seeks after every read, which in MP3 and broken FLAC files lands elsewhere.
        self._file.seekable = lambda: False
        self.sample_rate_hz: int = self._file.samplerate
        self.n_channels: int = self._file.channels
        self.n_frames = self._file.frames if self._file.frames < UNKNOWN_LENGTH else None
        if promised_s is not None:
            self.n_frames = round(promised_s * self.sample_rate_hz)

    def blocks(self) -> Iterator[FloatArray]:
        while True:
            try:
                with self._quiet():
                    block = self._file.read(READ_FRAMES, dtype="float32", always_2d=True)
            except self._error as error:
                raise BrokenOffError(getattr(error, "error_string", str(error))) from error
            if block.shape[0] == 0:
                return
            yield block

    def close(self) -> None:
        self._file.close()


class ArrayReader:
    """Samples in memory, so that they pass the same checks."""

    n_channels = 1

    def __init__(
        self, samples: FloatArray, label: str, sample_rate_hz: int = SAMPLE_RATE_HZ
    ) -> None:
        if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
            raise AudioError(
                f"{label} has shape {samples.shape} and dtype {samples.dtype}, expected (n,) "
                "float32 in [-1, 1]; average the channels, divide 16-bit by 32768"
            )
        self.sample_rate_hz = sample_rate_hz
        self._samples = samples.astype(np.float32, copy=False)
        self.n_frames: int | None = samples.shape[0]

    def blocks(self) -> Iterator[FloatArray]:
        """Yield `(n, 1)` float32, views of the array."""
        for start in range(0, self._samples.shape[0], READ_FRAMES):
            yield self._samples[start : start + READ_FRAMES, None]

    def close(self) -> None: ...


_mpg123_lock = threading.Lock()


@contextlib.contextmanager
def mute_mpg123() -> Iterator[None]:
    """Drop what mpg123 writes to file descriptor 2, even for good files.

    libsndfile has no option for it. Lines of other threads are passed on.
    """
    with _mpg123_lock, open(os.memfd_create("mpg123"), "w+b") as caught:
        try:
            stderr = os.dup(2)
        except OSError:  # There is no standard error.
            yield
            return
        try:
            os.dup2(caught.fileno(), 2)
            yield
        finally:
            os.dup2(stderr, 2)
            caught.seek(0)
            for line in caught:
                if not line.strip() or line.startswith(
                    (b"[src/libmpg123", b"Note: ", b"Warning: ")
                ):
                    continue
                with contextlib.suppress(OSError):  # it is full
                    os.write(stderr, line)
            os.close(stderr)
