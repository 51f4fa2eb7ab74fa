"""A stream's samples by position, held only as long as a window needs them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray


class AudioBuffer:
    """Reads `(n,)` float32 blocks of a stream forwards and drops what is passed."""

    def __init__(self, blocks: Iterator[FloatArray]) -> None:
        self._blocks = blocks
        self._held = np.empty(0, dtype=np.float32)
        self._start = 0

    def read(self, start: int, n_samples: int) -> FloatArray:
        """Return up to `n_samples` float32 samples from `start`; drop those before it."""
        self.forget(start)
        return self.peek(start, n_samples).copy()

    def peek(self, start: int, n_samples: int) -> FloatArray:
        """Return a view of up to `n_samples` float32 samples from `start`."""
        self._fill(start + n_samples)
        first = start - self._start
        audio: FloatArray = self._held[first : first + n_samples]
        return audio

    def reaches(self, position: int) -> bool:
        """Return whether there is a sample at this position."""
        self._fill(position + 1)
        return self.n_samples > position

    @property
    def n_samples(self) -> int:
        """Samples seen so far: all of them, once the stream has ended."""
        return self._start + self._held.size

    @property
    def n_held(self) -> int:
        """Samples in memory."""
        return self._held.size

    @property
    def duration_s(self) -> float:
        return self.n_samples / SAMPLE_RATE_HZ

    def drain(self) -> None:
        """Read to the end without keeping anything, so that the length is known."""
        for block in self._blocks:
            self._start, self._held = self.n_samples, block
        self.forget(self.n_samples)

    def _fill(self, end: int) -> None:
        blocks, n_missing = [], end - self.n_samples
        while n_missing > 0 and (block := next(self._blocks, None)) is not None:
            blocks.append(block)
            n_missing -= block.size
        if blocks:
            self._held = np.concatenate([self._held, *blocks])

    def forget(self, before: int) -> None:
        """Drop the samples before a position, reading up to it if necessary."""
        while self.n_samples < before and (block := next(self._blocks, None)) is not None:
            self._start, self._held = self.n_samples, block
        n_passed = min(before - self._start, self._held.size)
        self._start += n_passed
        self._held = self._held[n_passed:]
