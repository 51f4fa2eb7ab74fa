"""A buffer over a stream of audio, for readers that look ahead and go forwards only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray


class AudioBuffer:
    """Reads `(n,)` float32 blocks of a stream forwards and drops what is passed.

    Positions are samples from the start of the stream.
    """

    def __init__(self, blocks: Iterator[FloatArray]) -> None:
        self._blocks = blocks
        self._samples = np.empty(0, dtype=np.float32)
        self._start = 0
        """Position of the first sample in memory."""

    def read(self, start: int, n_samples: int) -> FloatArray:
        """Return up to `n_samples` float32 samples from `start`; drop those before it."""
        self.forget(start)
        return self.peek(start, n_samples).copy()

    def peek(self, start: int, n_samples: int) -> FloatArray:
        """Return a view of up to `n_samples` float32 samples from `start`."""
        self._fill(start + n_samples)
        first = start - self._start
        audio: FloatArray = self._samples[first : first + n_samples]
        return audio

    def reaches(self, position: int) -> bool:
        """Return whether there is a sample at this position."""
        self._fill(position + 1)
        return self.n_samples > position

    @property
    def n_samples(self) -> int:
        """Samples seen so far: all of them, once the stream has ended."""
        return self._start + self._samples.size

    @property
    def n_held(self) -> int:
        """Samples in memory."""
        return self._samples.size

    @property
    def duration_s(self) -> float:
        """Seconds seen so far."""
        return self.n_samples / SAMPLE_RATE_HZ

    def drain(self) -> None:
        """Read to the end without keeping anything, so that the length is known."""
        for block in self._blocks:
            self._hold_only(block)
        self.forget(self.n_samples)

    def forget(self, before: int) -> None:
        """Drop the samples before a position, reading up to it if necessary."""
        while self.n_samples < before:
            block = next(self._blocks, None)
            if block is None:
                break
            self._hold_only(block)
        n_passed = min(before - self._start, self._samples.size)
        self._start += n_passed
        self._samples = self._samples[n_passed:]

    def _hold_only(self, block: FloatArray) -> None:
        """Drop everything in memory for the block that follows it."""
        self._start = self.n_samples
        self._samples = block

    def _fill(self, end: int) -> None:
        """Read blocks until the samples before `end` are in memory, or the stream ends."""
        n_missing = end - self.n_samples
        blocks: list[FloatArray] = []
        while n_missing > 0:
            block = next(self._blocks, None)
            if block is None:
                break
            blocks.append(block)
            n_missing -= block.size
        if blocks:
            self._samples = np.concatenate([self._samples, *blocks])
