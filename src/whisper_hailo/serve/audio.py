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
from itertools import chain
from pathlib import PurePath
from typing import BinaryIO, Final, cast

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.files import new_copy, read_pieces
from whisper_hailo.audio.stream import MAX_RATE_HZ, MIN_RATE_HZ, Resampler
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.serve.concurrency import run_on_thread
from whisper_hailo.serve.errors import ClientDisconnectedError, TooLargeError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Reservation

FULL_SCALE: Final = np.float32(32_768)  # Of samples of 16 bits
_BLOCK_SAMPLES: Final = 30 * SAMPLE_RATE_HZ
_SMALL_BYTES: Final = 4 << 20  # so much needs no disk, which may be full
_DECODERS: Final = 2  # recordings decoded at once; each may need a process


@dataclass(frozen=True, slots=True)
class PcmForm:
    """Format of bare samples; `width` is in bytes, and samples of one byte are unsigned."""

    rate_hz: int = SAMPLE_RATE_HZ
    width: int = 2
    n_channels: int = 1

    @property
    def can_stream(self) -> bool:
        """Whether `SampleStream` decodes it."""
        return self.width == 2 and MIN_RATE_HZ <= self.rate_hz <= MAX_RATE_HZ


class SampleStream:
    """Decodes bare samples as they come, in pieces of any size.

    Samples have 16 bits, or are bytes whose values are in `table`, `(256,)` float32.
    """

    def __init__(self, rate_hz: int, n_channels: int = 1, table: FloatArray | None = None) -> None:
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
            samples = self._table[np.frombuffer(raw, np.uint8)]
        else:
            samples = np.frombuffer(raw[:n_bytes], "<i2").astype(np.float32) / FULL_SCALE
        if self._n_channels > 1:
            samples = samples.reshape(-1, self._n_channels).mean(axis=1)
        return self._resampler.push(samples)

    def finish(self) -> FloatArray:
        """Return what the resampler has kept back."""
        return self._resampler.finish()

    def seconds(self, n_bytes: int) -> float:
        return n_bytes / (self._frame_bytes * self._rate_hz)


class Decoders:
    """Decodes uploads, a few at a time, off the event loop."""

    def __init__(self, limits: LimitOptions) -> None:
        self._max_s = limits.max_audio_s
        self._free = asyncio.Semaphore(_DECODERS)

    async def decode(
        self,
        file: BinaryIO,
        name: str | None,
        stored: Reservation,
        form: PcmForm | None = None,
        heard_s: float | None = None,
    ) -> FloatArray:
        """Decode audio of any format, as the command does; bare samples have a `form`.

        Only the first `heard_s` are wanted, unless it is `None`. The samples, `(n_samples,)`
        float32 at 16 kHz mono, lie on the disk where they are many; `stored` has room for them.
        """
        label = "the samples" if form is not None else PurePath(name or "").name or "the file"
        has_left = threading.Event()

        def checked(blocks: Iterator[FloatArray]) -> Iterator[FloatArray]:
            seconds = 0.0
            for block in blocks:
                seconds += block.size / SAMPLE_RATE_HZ
                expect_seconds(seconds, self._max_s)
                if has_left.is_set():
                    raise ClientDisconnectedError
                stored.take(block.nbytes)
                yield block

        def decode() -> FloatArray:
            with ExitStack() as resources:
                whole = file if form is None else _wave_file(file, form, resources)
                stream = resources.enter_context(open_audio(whole, label))
                expect_seconds(stream.duration_s or 0.0, self._max_s)
                blocks = checked(stream.blocks(_BLOCK_SAMPLES))
                first = next(blocks)
                if heard_s is not None:
                    return first[: round(heard_s * SAMPLE_RATE_HZ)]
                if first.size < _BLOCK_SAMPLES:
                    return first
                content = (block.tobytes() for block in chain([first], blocks))
                return np.memmap(new_copy(content, label, resources), np.float32, "r")

        async with self._free:
            return await run_on_thread(decode, on_cancel=has_left.set)


def expect_seconds(seconds: float, max_s: float) -> None:
    """Refuse a recording that is too long."""
    if seconds > max_s:
        raise TooLargeError(
            f"the recording lasts {seconds:.0f} s or more, expected {max_s:g} s at most; split it"
        )


def _wave_file(data: BinaryIO, form: PcmForm, resources: ExitStack) -> BinaryIO:
    """Return little-endian samples as a WAV file; a part of a frame at the end is dropped."""
    frame = form.width * form.n_channels
    fits = form.width in (1, 2, 3, 4) and 1 <= form.n_channels <= 64 and 0 < form.rate_hz < 2**20
    if not fits:
        raise AudioError(
            f"samples of {form.width} bytes, {form.n_channels} channels at {form.rate_hz} Hz, "
            "expected 1 to 4 bytes, some channels and a rate; send 16000 Hz, 2 bytes, mono"
        )
    n_frames = data.seek(0, os.SEEK_END) // frame
    data.seek(0)
    head = io.BytesIO()
    with wave.open(head, "wb") as header:
        header.setparams((form.n_channels, form.width, form.rate_hz, n_frames, "NONE", ""))
        header.writeframesraw(b"")
        header_bytes = head.getvalue()
    if n_frames * frame <= _SMALL_BYTES:
        return io.BytesIO(header_bytes + data.read(n_frames * frame))
    copy = new_copy(chain([header_bytes], read_pieces(data)), "the samples", resources)
    copy.seek(0)
    return cast(BinaryIO, copy)
