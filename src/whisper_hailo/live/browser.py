"""A microphone in a browser: samples that come over a socket."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Self

import numpy as np

from whisper_hailo.core.closing import Closing
from whisper_hailo.live.sources import Block


class BrowserSource(Closing):
    """Takes 16-bit little-endian mono samples at 16 kHz, from whichever browser sends them."""

    live = True
    endless = True
    name = "a browser's microphone"

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Block | None] = queue.SimpleQueue()

    def open(self) -> Self:
        """Nothing to open: the page asks for the microphone."""
        return self

    def push(self, raw: bytes) -> None:
        """Take a piece, on the server's thread; half a sample at its end is dropped."""
        samples = np.frombuffer(raw[: len(raw) & ~1], dtype="<i2").astype(np.float32) / 32768.0
        self._queue.put(Block(samples, time.perf_counter()))

    def blocks(self) -> Iterator[Block]:
        """What came, until the source is closed."""
        while (block := self._queue.get()) is not None:
            if block.audio.size:
                yield block

    def close(self) -> None:
        """End the stream."""
        self._queue.put(None)
