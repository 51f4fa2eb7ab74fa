"""A recording as a source, or raw samples from a pipe."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.stream import Resampler
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import BLOCK_S, POLL_S, Block, Pace

_BLOCK: Final = round(BLOCK_S * SAMPLE_RATE_HZ)

_SOUND_FILE: Final = re.compile(
    rb"RIFF|RF64|fLaC|OggS|ID3[\x02-\x04]|\xff[\xfb\xf3\xf2][\x10-\xeb]|....ftyp|\x1aE\xdf\xa3"
    rb"|FORM....AIF|caff\x00",
    re.DOTALL,
)
"""First bytes of WAV, FLAC, OGG, MP3, MP4, Matroska, AIFF and CAF files."""


class FileSource(Closing):
    """A recording, as fast as possible or at the speed of speech."""

    endless = False

    def __init__(
        self,
        path: str | Path,
        *,
        real_time: bool = False,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = str(path)
        self.pace = Pace.BUFFERED if real_time else Pace.PULL
        self._path = path
        self._now = now
        self._sleep = sleep
        self._closed = False
        self._opened = ExitStack()

    def open(self) -> Self:
        """Open the file; only once, since a pipe cannot be read again."""
        self._stream = self._opened.enter_context(open_audio(self._path))
        return self

    def blocks(self) -> Iterator[Block]:
        """Yield blocks; in real time, each when its last sample would have been said."""
        if self._closed:
            return
        begin_s = self._now()
        n_samples = 0
        captured_s: float | None = None
        with self._opened.pop_all():  # `close` may not close what is being read
            for audio in self._stream.blocks(_BLOCK):
                if self._closed:
                    return
                n_samples += audio.size
                if self.pace is Pace.BUFFERED:
                    captured_s = begin_s + n_samples / SAMPLE_RATE_HZ
                    self._sleep(max(0.0, captured_s - self._now()))
                yield Block(audio, captured_s)

    def close(self) -> None:
        """End at the next block."""
        self._closed = True
        self._opened.close()


class PcmSource(Closing):
    """Raw 16-bit little-endian mono samples, such as `arecord` or `ffmpeg` write to a pipe."""

    pace = Pace.BUFFERED
    endless = True
    name = "standard input"

    def __init__(self, descriptor: int, rate_hz: int = SAMPLE_RATE_HZ) -> None:
        self._descriptor = descriptor
        self._resampler = Resampler(rate_hz)
        self._closed = False

    def blocks(self) -> Iterator[Block]:
        """Yield samples as soon as they come."""
        odd = b""  # the first byte of a sample
        is_first = True
        for raw in self._read():
            captured_s = time.perf_counter()
            if is_first and _SOUND_FILE.match(raw):
                raise AudioError(
                    f"{self.name} begins like a sound file, expected raw 16-bit mono samples; name "
                    "the file, or pipe it through ffmpeg -i - -f s16le -ac 1 -ar 16000 -"
                )
            is_first = False
            data = odd + raw
            n_even = len(data) & ~1
            odd = data[n_even:]
            samples = np.frombuffer(data[:n_even], dtype="<i2")
            audio = self._resampler.push(samples.astype(np.float32) / 32768.0)
            if audio.size:
                yield Block(audio, captured_s)
        rest = self._resampler.finish()
        if rest.size:
            yield Block(rest)

    def _read(self) -> Iterator[bytes]:
        """Yield bytes until the pipe ends or the source is closed."""
        readable = select.poll()
        readable.register(self._descriptor, select.POLLIN)
        while not self._closed:
            if not readable.poll(1000 * POLL_S):
                continue
            try:
                raw = os.read(self._descriptor, 1 << 16)
            except OSError as error:
                raise AudioError(
                    f"{self.name} cannot be read ({error.strerror}); pipe raw 16-bit samples in"
                ) from error
            if not raw:
                return
            yield raw

    def close(self) -> None:
        """End soon, even while nothing comes."""
        self._closed = True
