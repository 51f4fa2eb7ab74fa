"""Decoders of one audio file each: libsndfile, FFmpeg, or samples in memory.

They give the file's own rate and channels; `audio.py` makes 16 kHz mono of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import numpy as np

from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

_READ_FRAMES = 8192
_UNKNOWN_LENGTH = 2**62

# Containers only: playlists and concatenation scripts would make FFmpeg open other files.
_MEDIA_FORMATS = (
    "3dostr,aac,ac3,aiff,amr,ape,asf,asf_o,au,avi,caf,dsf,dts,eac3,flac,flv,matroska,webm,"
    "mov,mp4,m4a,3gp,3g2,mj2,mp3,mpc,mpc8,mpeg,mpegts,oga,ogg,tta,w64,wav,wv"
)


class BrokenOffError(Exception):
    """The decoder cannot go on; what came before is good."""


class Reader(Protocol):
    """A decoder of one file: native rate, native channels."""

    sample_rate_hz: int
    n_channels: int
    n_frames: int | None

    def blocks(self) -> Iterator[FloatArray]:
        """Yield `(n, n_channels)` float32; raises `BrokenOffError` where the file does."""

    def close(self) -> None:
        """Give the decoder back; the file stays the caller's."""


def open_reader(file: BinaryIO, label: str) -> Reader:
    """The reader of libsndfile, else that of FFmpeg."""
    import soundfile

    head = file.read(2)
    file.seek(0)
    mpeg = head == b"ID" or (head[:1] == b"\xff" and head[1:] >= b"\xe0")
    try:
        return _SoundfileReader(file, mpeg=mpeg)
    except (soundfile.SoundFileError, TypeError) as error:  # TypeError: a name ending in .raw.
        why = "no MPEG frames" if mpeg else getattr(error, "error_string", "unknown").rstrip(".")
    try:
        import av
    except ImportError:
        raise AudioError(
            f"{label} is not readable audio ({why}), expected a whole WAV, FLAC, OGG or MP3 file; "
            f"for m4a, mp4, webm and the like: {to_add('media')}"
        ) from None
    file.seek(0)
    try:
        return _MediaReader(file, label)
    except av.error.FFmpegError as error:
        raise AudioError(
            f"{label} is not readable audio ({why}; FFmpeg: {error.strerror or error}), "
            "expected a whole audio or video file; try it in a player, or export it again"
        ) from error


class _SoundfileReader:
    """libsndfile, through its file descriptor or Python's file methods."""

    def __init__(self, file: BinaryIO, *, mpeg: bool) -> None:
        import soundfile

        self._quiet = _without_mpg123_noise if mpeg else contextlib.nullcontext
        self._error = soundfile.SoundFileError
        # A descriptor keeps soundfile from judging by the extension, and is faster.
        target = file.fileno() if isinstance(file, io.FileIO) else file
        with self._quiet():
            self._file = soundfile.SoundFile(target, closefd=False)
        # Else soundfile seeks after every read, which in MP3 and broken FLAC files lands elsewhere.
        self._file.seekable = lambda: False
        self.sample_rate_hz: int = self._file.samplerate
        self.n_channels: int = self._file.channels
        self.n_frames = self._file.frames if self._file.frames < _UNKNOWN_LENGTH else None

    def blocks(self) -> Iterator[FloatArray]:
        while True:
            try:
                with self._quiet():
                    block = self._file.read(_READ_FRAMES, dtype="float32", always_2d=True)
            except self._error as error:
                raise BrokenOffError(getattr(error, "error_string", str(error))) from error
            if block.shape[0] == 0:
                return
            yield block

    def close(self) -> None:
        self._file.close()


class _MediaReader:
    """FFmpeg, through PyAV."""

    def __init__(self, file: BinaryIO, label: str) -> None:
        import av

        self._error: type[Exception] = av.error.FFmpegError
        self._resampler = av.AudioResampler(format="fltp")
        self._container = av.open(file, "r", options={"format_whitelist": _MEDIA_FORMATS})
        tracks = self._container.streams.audio
        if not tracks or not tracks[0].rate:
            self._container.close()
            raise AudioError(
                f"{label} has no readable audio track, expected one; give another file"
            )
        self._stream = tracks[0]
        self.sample_rate_hz: int = self._stream.rate
        self.n_channels: int = self._stream.channels
        seconds: float | None = None
        if self._stream.duration is not None and self._stream.time_base is not None:
            seconds = float(self._stream.duration * self._stream.time_base)
        elif self._container.duration is not None and not self._container.streams.video:
            seconds = self._container.duration / av.time_base
        self.n_frames = None if seconds is None else round(seconds * self.sample_rate_hz)

    def blocks(self) -> Iterator[FloatArray]:
        try:
            for frame in self._container.decode(self._stream):
                for planar in self._resampler.resample(frame):
                    yield np.asarray(planar.to_ndarray().T, dtype=np.float32)
        except self._error as error:
            raise BrokenOffError(getattr(error, "strerror", None) or str(error)) from error

    def close(self) -> None:
        self._container.close()


class ArrayReader:
    """Samples in memory, so that they pass the same checks."""

    sample_rate_hz = SAMPLE_RATE_HZ
    n_channels = 1

    def __init__(self, samples: FloatArray, label: str) -> None:
        if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
            raise AudioError(
                f"{label} has shape {samples.shape} and dtype {samples.dtype}, expected (n,) "
                "float32 in [-1, 1] at 16 kHz; average the channels, divide 16-bit by 32768"
            )
        self._samples = samples.astype(np.float32, copy=False)
        self.n_frames: int | None = samples.shape[0]

    def blocks(self) -> Iterator[FloatArray]:
        """Yield `(n, 1)` float32."""
        for start in range(0, self._samples.shape[0], _READ_FRAMES):
            yield self._samples[start : start + _READ_FRAMES, None]

    def close(self) -> None:
        """Nothing to give back."""


_mpg123_lock = threading.Lock()


@contextlib.contextmanager
def _without_mpg123_noise() -> Iterator[None]:
    """Keep what mpg123 writes to file descriptor 2, even for sound files, from the user.

    There is no option for it in libsndfile. Lines that other threads write meanwhile are passed on.
    """
    with _mpg123_lock, tempfile.TemporaryFile() as caught:
        try:
            stderr = os.dup(2)
        except OSError:  # Started without a standard error: nobody to disturb.
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
                os.write(stderr, line)
            os.close(stderr)
