"""Raw samples from a pipe, or from a browser's microphone over a socket."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterator
from typing import Final, Self

import numpy as np

from whisper_hailo.audio.stream import Resampler
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import AudioQueue, Block, Pace

_FILES: Final = {
    "a WAV file": re.compile(rb"RIFF|RF64"),
    "a FLAC file": re.compile(rb"fLaC"),
    "an OGG file": re.compile(rb"OggS"),
    "an MP3 file": re.compile(rb"ID3[\x02-\x04]|\xff[\xfb\xf3\xf2][\x10-\xeb]"),
    "an MP4 or M4A file": re.compile(rb"....ftyp", re.DOTALL),
    "a Matroska or WebM file": re.compile(rb"\x1aE\xdf\xa3"),
    "an AIFF file": re.compile(rb"FORM....AIF", re.DOTALL),
    "a CAF file": re.compile(rb"caff\x00"),
}
"""How files of sound begin."""

_LOOK_MS: Final = 100
"""So often a pipe that nothing comes from is left, to see whether it is still wanted."""


class PcmSource(Closing):
    """Raw 16-bit little-endian mono samples, such as `arecord` or `ffmpeg` write to a pipe."""

    pace = Pace.BUFFERED
    endless = True

    def __init__(
        self, descriptor: int, rate_hz: int = SAMPLE_RATE_HZ, name: str = "standard input"
    ) -> None:
        self.name = name
        self._descriptor = descriptor
        self._resampler = Resampler(rate_hz)
        self._closed = False

    def open(self) -> Self:
        return self

    def blocks(self) -> Iterator[Block]:
        """Yield samples as soon as they come."""
        odd, begun = b"", False
        coming = select.poll()
        coming.register(self._descriptor, select.POLLIN)
        while not self._closed:
            if not coming.poll(_LOOK_MS):
                continue
            try:
                raw = os.read(self._descriptor, 1 << 16)
            except OSError as error:
                raise AudioError(
                    f"{self.name} cannot be read ({error.strerror}); pipe raw 16-bit samples in"
                ) from error
            if not raw:
                break
            captured_s = time.perf_counter()
            if not begun:
                _expect_samples(raw, self.name)
            begun = True
            data = odd + raw
            odd = data[len(data) & ~1 :]
            samples = np.frombuffer(data[: len(data) & ~1], dtype="<i2")
            audio = self._resampler.push(samples.astype(np.float32) / 32768.0)
            if audio.size:
                yield Block(audio, captured_s)
        rest = self._resampler.finish()
        if rest.size:
            yield Block(rest)

    def close(self) -> None:
        """End soon, even if nothing comes."""
        self._closed = True


def _expect_samples(begin: bytes, name: str) -> None:
    """Refuse the header of a file where raw samples are expected."""
    kind = next((kind for kind, first in _FILES.items() if first.match(begin)), None)
    if kind is not None:
        raise AudioError(
            f"{name} begins as {kind}, expected raw 16-bit mono samples; name the file, or pipe it "
            "through ffmpeg -i - -f s16le -ac 1 -ar 16000 -"
        )


class BrowserSource(Closing):
    """Takes 16-bit little-endian mono samples at 16 kHz from a browser, over a socket."""

    pace = Pace.PULL  # the browser keeps them meanwhile
    endless = True
    name = "a browser's microphone"

    def __init__(self) -> None:
        self._queue = AudioQueue()

    def open(self) -> Self:
        """Do nothing: the page asks for the microphone."""
        return self

    def push(self, raw: bytes) -> float:
        """Take whole samples, on the server's thread; return the seconds without room."""
        samples = np.frombuffer(raw[: len(raw) & ~1], dtype="<i2").astype(np.float32) / 32768.0
        return self._queue.put(Block(samples, time.perf_counter())) / SAMPLE_RATE_HZ

    def blocks(self) -> Iterator[Block]:
        """Yield what came, until the source is closed."""
        return self._queue.blocks()

    def close(self) -> None:
        self._queue.end()
