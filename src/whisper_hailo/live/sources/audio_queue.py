"""What came and was not heard yet: one piece of audio, and never more than there is room for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import Block, Interruption, Voices

LIMIT_S: Final = 300.0
"""Longer than three reopenings of a chip take; 18 MiB."""

LOOK_S: Final = 0.1
"""So often one who waits for audio looks whether it is still wanted."""


@dataclass(slots=True)
class _Gap:
    """A place where audio is missing.

    Attributes:
        at: samples before it that wait.
        captured_s: when the last of them was captured.
        n_lost: samples that were dropped.
        interruption: the source is away there, or back.
    """

    at: int
    captured_s: float | None
    n_lost: int = 0
    interruption: Interruption | None = None


class AudioQueue:
    """Queue of audio between two threads; what waits is taken as one block.

    Without room, audio waits or is dropped. A gap always lies behind a block, never inside: a block
    ends at the next gap.

    Args:
        limit_s: room, in seconds.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        n_most = round(limit_s * SAMPLE_RATE_HZ)
        self._audio = np.empty(n_most, np.float32)  # takes memory as far as it is used
        self._voices: Voices = np.empty(n_most, np.int8)
        self._is_split = False
        self._n_samples = 0
        self._gaps: deque[_Gap] = deque()
        self._n_faults = 0
        self._recorded_s: float | None = None
        self._captured_s: float | None = None
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, block: Block) -> int:
        """Add what there is room for.

        Returns:
            samples that were dropped.
        """
        with self._changed:
            n_lost = block.audio.size - self._add(block, 0)
            self._n_faults += block.n_faults
            self._miss(n_lost, block.interruption)
            self._changed.notify_all()
            return n_lost

    def put_all(self, block: Block) -> None:
        """Add everything, waiting for room if necessary."""
        with self._changed:
            self._n_faults += block.n_faults
            n_kept = 0
            while True:
                n_kept += self._add(block, n_kept)
                self._changed.notify_all()
                if n_kept == block.audio.size or self._ended:
                    self._miss(0, block.interruption)
                    return
                self._changed.wait()

    def end(self, failure: BaseException | None = None) -> None:
        """End the queue, once; a failure is raised behind the waiting audio."""
        with self._changed:
            if not self._ended:
                self._ended, self._failure = True, failure
            self._changed.notify_all()

    def blocks(self) -> Iterator[Block]:
        """Yield all that waits, repeatedly; an empty block when nothing comes for `LOOK_S`.

        Raises:
            BaseException: the failure that it ended with.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._n_samples or self._gaps or self._ended, LOOK_S)
                block = self._take()
                ended = self._ended and not (self._n_samples or self._gaps)
            yield block
            if ended:
                break
        if self._failure is not None:
            raise self._failure

    def _add(self, block: Block, n_before: int) -> int:
        """Append the samples from `n_before` on that there is room for; return their number."""
        if block.recorded_s is not None and not n_before:
            self._recorded_s = block.recorded_s - self._n_samples / SAMPLE_RATE_HZ
        rest = block.audio[n_before : n_before + self._audio.size - self._n_samples]
        self._audio[self._n_samples : self._n_samples + rest.size] = rest
        if block.voices is not None:
            heard = block.voices[n_before : n_before + rest.size]
            self._voices[self._n_samples : self._n_samples + rest.size] = heard
            self._is_split = True
        self._n_samples += rest.size
        if rest.size:
            self._captured_s = block.captured_s
        return int(rest.size)

    def _miss(self, n_lost: int, interruption: Interruption | None) -> None:
        """Note what is missing behind all that waits."""
        last = self._gaps[-1] if self._gaps else None
        if n_lost and (last is None or last.at < self._n_samples or last.interruption is not None):
            self._gaps.append(_Gap(self._n_samples, self._captured_s, n_lost))
        elif last is not None:
            last.n_lost += n_lost
        if interruption is not None:
            self._gaps.append(_Gap(self._n_samples, self._captured_s, interruption=interruption))

    def _take(self) -> Block:
        """Remove what waits up to the first gap."""
        whole = _Gap(self._n_samples, self._captured_s)
        gap = self._gaps.popleft() if self._gaps else whole
        block = Block(
            self._audio[: gap.at].copy(),
            gap.captured_s,
            self._n_faults,
            gap.n_lost,
            gap.interruption,
            self._recorded_s,
            self._voices[: gap.at].copy() if self._is_split else None,
        )
        self._n_samples -= gap.at
        if self._is_split:
            rest = self._voices[gap.at : gap.at + self._n_samples].copy()
            self._voices[: self._n_samples] = rest
        self._audio[: self._n_samples] = self._audio[gap.at : gap.at + self._n_samples].copy()
        for later in self._gaps:
            later.at -= gap.at
        self._n_faults, self._recorded_s = 0, None
        if not self._n_samples:
            self._captured_s = None
        self._changed.notify_all()
        return block
