"""Samples of a stream by their position, held only as long as a window needs them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray


class AudioFeed:
    """Reads a stream forwards and forgets what lies behind.

    Args:
        blocks: consecutive pieces `(n,)` float32 of the stream.
    """

    def __init__(self, blocks: Iterator[FloatArray]) -> None:
        self._blocks = blocks
        self._held = np.empty(0, dtype=np.float32)
        self._start = 0
        self._ended = False

    def read(self, start: int, n_samples: int) -> FloatArray:
        """Samples from a position on; what lies before it is forgotten.

        Args:
            start: position in samples, not before the last one read from.
            n_samples: how many.

        Returns:
            `(n,)` float32, shorter than asked for at the end of the stream.
        """
        self._forget(start)
        self._fill(start + n_samples)
        audio: FloatArray = self._held[start - self._start : start - self._start + n_samples]
        return audio.copy()

    def reaches(self, position: int) -> bool:
        """Whether there is a sample at this position."""
        self._fill(position + 1)
        return self.n_samples > position

    @property
    def n_samples(self) -> int:
        """Samples seen so far: all of them, once the stream has ended."""
        return self._start + self._held.size

    @property
    def duration_s(self) -> float:
        return self.n_samples / SAMPLE_RATE_HZ

    def drain(self) -> None:
        """Read to the end without keeping anything, so that the length is known."""
        while not self._ended:
            self._forget(self.n_samples)
            self._fill(self.n_samples + 1)

    def _fill(self, end: int) -> None:
        pieces = [self._held]
        n_samples = self.n_samples
        while n_samples < end and not self._ended:
            block = next(self._blocks, None)
            if block is None:
                self._ended = True
                break
            pieces.append(block)
            n_samples += block.size
        if len(pieces) > 1:
            self._held = np.concatenate(pieces)

    def _forget(self, before: int) -> None:
        """Drop what lies before a position, reading past it where necessary."""
        while True:
            cut = min(before - self._start, self._held.size)
            self._held = self._held[cut:]
            self._start += cut
            if self._start >= before or self._ended:
                return
            self._fill(self._start + 1)
