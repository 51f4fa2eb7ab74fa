"""Audio that clients send: uploads, decoded no further than allowed, and samples of streams."""

from __future__ import annotations

import asyncio
import io
import os
import threading
import wave
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import PurePath
from typing import BinaryIO, Final, cast

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.files import IN_MEMORY_BYTES, new_copy, read_pieces
from whisper_hailo.audio.stream import (
    MAX_RATE_HZ,
    MIN_RATE_HZ,
    AudioStream,
    Resampler,
)
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.serve.concurrency import run_on_thread
from whisper_hailo.serve.errors import ClientDisconnectedError, TooLargeError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Reservation
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio, Turns

FULL_SCALE: Final = np.float32(32_768)
"""Of 16-bit samples."""

_BLOCK_SAMPLES: Final = 10 * SAMPLE_RATE_HZ
_N_SHORT_BLOCKS: Final = 3
"""Blocks of a short recording; it is as long as one window."""

_IN_MEMORY_BYTES: Final = 4 << 20  # smaller uploads need no disk, which may be full

_MAX_OPENING: Final = 4
"""Recordings that are opened at once; each may need a process."""

_MAX_WHOLE: Final = 2
"""Recordings that are decoded as a whole at once."""

_AHEAD_BYTES: Final = 16 << 20
"""What a long recording takes: two blocks, some windows, a buffer, perhaps a process."""

_MAX_CHANNELS: Final = 64


@dataclass(frozen=True, slots=True)
class PcmFormat:
    """Format of raw samples; `width` is in bytes, and samples of one byte are unsigned."""

    rate_hz: int = SAMPLE_RATE_HZ
    width: int = 2
    n_channels: int = 1

    @property
    def can_stream(self) -> bool:
        """Whether `SampleStream` decodes it."""
        return self.width == 2 and MIN_RATE_HZ <= self.rate_hz <= MAX_RATE_HZ

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of all channels."""
        return self.width * self.n_channels


class SampleStream:
    """Decodes raw samples as they come, in pieces of any size.

    Samples have 16 bits, or are bytes whose values are in `table`, `(256,)` float32.
    """

    def __init__(
        self, rate_hz: int, n_channels: int = 1, table: FloatArray | None = None
    ) -> None:
        self._table = table
        self._n_channels = n_channels
        self._frame_bytes = n_channels * (2 if table is None else 1)
        self._rate_hz = rate_hz
        self._resampler = Resampler(rate_hz)
        self._rest = b""

    def push(self, raw: bytes) -> FloatArray:
        """Return `(n_samples,)` at 16 kHz mono; a part of a frame at the end is kept."""
        raw = self._rest + raw
        n_bytes = len(raw) // self._frame_bytes * self._frame_bytes
        self._rest = raw[n_bytes:]
        if self._table is not None:
            samples = self._table[np.frombuffer(raw[:n_bytes], np.uint8)]
        else:
            samples = (
                np.frombuffer(raw[:n_bytes], "<i2").astype(np.float32) / FULL_SCALE
            )
        if self._n_channels > 1:
            samples = samples.reshape(-1, self._n_channels).mean(axis=1)
        return self._resampler.push(samples)

    def finish(self) -> FloatArray:
        """Return what the resampler has kept back."""
        return self._resampler.finish()

    def seconds_of(self, n_bytes: int) -> float:
        """Return how long some bytes last."""
        return n_bytes / (self._frame_bytes * self._rate_hz)


class AudioDecoders:
    """Opens and decodes uploads off the event loop.

    Of a long recording only the beginning is decoded at first, and the rest while it is
    transcribed. So whatever others send, a command waits for half a minute of their audio at most.
    """

    def __init__(self, limits: LimitOptions) -> None:
        self._max_s = limits.max_audio_s
        self._opening = asyncio.Semaphore(_MAX_OPENING)
        self._whole_files = asyncio.Semaphore(_MAX_WHOLE)
        self._turns = Turns()

    async def open_recording(
        self,
        file: BinaryIO,
        name: str | None,
        reservation: Reservation,
        *,
        pcm: PcmFormat | None = None,
        max_s: float | None = None,
    ) -> FloatArray | OpenedAudio:
        """Decode a short recording, or the beginning of a long one, as the command does.

        It has any format; raw samples have a `pcm` format. The long one keeps the file open by
        itself. Only the first `max_s` seconds are returned, 30 at most; `None` returns the whole.

        Returns:
            `(n_samples,)` float32 at 16 kHz mono of a recording of up to 30 s.

        Raises:
            AudioError: the audio cannot be decoded.
            TooLargeError: it is longer than a recording may be.
            BusyError: the recordings of all clients leave no room for it.
        """
        is_cancelled = threading.Event()
        opened: list[OpenedAudio] = []

        def open_upload() -> FloatArray | OpenedAudio:
            with ExitStack() as resources:
                stream = self._open_stream(file, name, pcm, resources)
                blocks = self._limit_duration(stream, is_cancelled)
                beginning = list(islice(blocks, _N_SHORT_BLOCKS))
                following = next(blocks, None)
                if following is None or max_s is not None:
                    audio = np.concatenate(beginning)
                    reservation.take(audio.nbytes)
                    return audio[: _count_samples(max_s)]
                reservation.take(_AHEAD_BYTES)
                long_audio = OpenedAudio(
                    stream,
                    chain(beginning, [following], blocks),
                    resources.pop_all(),
                    self._turns,
                )
                opened.append(long_audio)
                return long_audio

        try:
            async with self._opening:
                return await run_on_thread(open_upload, on_cancel=is_cancelled.set)
        except BaseException:
            # A client may leave when the recording is open, but before it is handed over.
            for long_audio in opened:
                long_audio.close()
            raise

    async def decode(
        self, file: BinaryIO, name: str | None, reservation: Reservation
    ) -> FloatArray:
        """Decode a whole recording of any format; many samples lie on the disk.

        Returns:
            `(n_samples,)` float32 at 16 kHz mono.

        Raises:
            AudioError, TooLargeError, BusyError: as `open_recording`.
        """
        is_cancelled = threading.Event()

        def reserve(blocks: Iterator[FloatArray]) -> Iterator[FloatArray]:
            for block in blocks:
                reservation.take(block.nbytes)
                yield block

        def decode() -> FloatArray:
            with ExitStack() as resources:
                stream = self._open_stream(file, name, None, resources)
                blocks = reserve(self._limit_duration(stream, is_cancelled))
                first = next(blocks)
                if first.size < _BLOCK_SAMPLES:
                    return first
                content = (block.tobytes() for block in chain([first], blocks))
                copy = new_copy(content, _name_in_messages(name, None), resources)
                return np.memmap(copy, np.float32, "r")

        async with self._whole_files:
            return await run_on_thread(decode, on_cancel=is_cancelled.set)

    def _open_stream(
        self,
        file: BinaryIO,
        name: str | None,
        pcm: PcmFormat | None,
        resources: ExitStack,
    ) -> AudioStream:
        """Open a recording, unless its header says at once that it is too long."""
        if pcm is None:
            encoded = _keep_open(file, resources)
        else:
            encoded = _make_wave_file(file, pcm, resources)
        label = _name_in_messages(name, pcm)
        stream = resources.enter_context(open_audio(encoded, label))
        check_duration(stream.duration_s or 0.0, self._max_s)
        return stream

    def _limit_duration(
        self, stream: AudioStream, is_cancelled: threading.Event
    ) -> Iterator[FloatArray]:
        """Yield blocks as long as the recording may go on; headers need not tell the truth."""
        seconds = 0.0
        for block in stream.blocks(_BLOCK_SAMPLES):
            seconds += block.size / SAMPLE_RATE_HZ
            check_duration(seconds, self._max_s)
            if is_cancelled.is_set():
                raise ClientDisconnectedError
            yield block


def _count_samples(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SAMPLE_RATE_HZ)


def _keep_open(file: BinaryIO, resources: ExitStack) -> BinaryIO:
    """Return a file that stays open when its request ends.

    A small one, or one in memory, is copied when it is opened.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= IN_MEMORY_BYTES or isinstance(file, io.BytesIO):
        return file
    file.flush()
    # An upload on the disk, read at positions of our own.
    return resources.enter_context(io.FileIO(os.dup(file.fileno())))


def _name_in_messages(name: str | None, pcm: PcmFormat | None) -> str:
    if pcm is not None:
        return "the samples"
    return PurePath(name or "").name or "the file"


def check_duration(seconds: float, max_s: float) -> None:
    """Refuse a recording that is too long.

    Raises:
        TooLargeError: it is.
    """
    if seconds > max_s:
        raise TooLargeError(
            f"the recording lasts {seconds:.0f} s or more, expected {max_s:g} s at most; split it"
        )


def _make_wave_file(
    samples: BinaryIO, pcm: PcmFormat, resources: ExitStack
) -> BinaryIO:
    """Return little-endian samples as a WAV file; a part of a frame at the end is dropped.

    Raises:
        AudioError: a WAV file cannot have that format.
    """
    is_valid = (
        pcm.width in (1, 2, 3, 4)
        and 1 <= pcm.n_channels <= _MAX_CHANNELS
        and 0 < pcm.rate_hz < 1 << 20
    )
    if not is_valid:
        raise AudioError(
            f"samples of {pcm.width} bytes, {pcm.n_channels} channels at {pcm.rate_hz} Hz, "
            "expected 1 to 4 bytes, 1 to 64 channels and a rate; send 16000 Hz, 2 bytes, mono"
        )
    n_frames = samples.seek(0, os.SEEK_END) // pcm.frame_bytes
    samples.seek(0)
    header = _make_wave_header(pcm, n_frames)
    n_bytes = n_frames * pcm.frame_bytes
    if n_bytes <= _IN_MEMORY_BYTES:
        return io.BytesIO(header + samples.read(n_bytes))
    copy = new_copy(chain([header], read_pieces(samples)), "the samples", resources)
    copy.seek(0)
    return cast(BinaryIO, copy)


def _make_wave_header(pcm: PcmFormat, n_frames: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((pcm.n_channels, pcm.width, pcm.rate_hz, n_frames, "NONE", ""))
        writer.writeframesraw(b"")  # writes the header
        # Read before the writer is closed: it would correct the number of frames to 0.
        return file.getvalue()
