"""A microphone in a browser: samples that come over a socket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Self

import numpy as np

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.audio_queue import Backlog
from whisper_hailo.live.sources.source import Block, Pace


class BrowserSource(Closing):
    """Takes 16-bit little-endian mono samples at 16 kHz, from whichever browser sends them."""

    pace = Pace.ASKED  # the browser keeps them meanwhile
    endless = True
    name = "a browser's microphone"

    def __init__(self) -> None:
        self._backlog = Backlog()

    def open(self) -> Self:
        """Nothing to open: the page asks for the microphone."""
        return self

    def push(self, raw: bytes) -> float:
        """Take a piece, on the server's thread; half a sample at its end is dropped.

        Returns:
            seconds of it that were lost, because too much waits.
        """
        samples = np.frombuffer(raw[: len(raw) & ~1], dtype="<i2").astype(np.float32) / 32768.0
        return self._backlog.put(Block(samples, time.perf_counter())) / SAMPLE_RATE_HZ

    def blocks(self) -> Iterator[Block]:
        """What came, until the source is closed."""
        return self._backlog.blocks()

    def close(self) -> None:
        self._backlog.end()
