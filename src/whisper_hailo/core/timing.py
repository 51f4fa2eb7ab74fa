"""A clock per stage, and waits that grow from retry to retry."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Final

from whisper_hailo.core.types import Timings


class StageClock:
    """Sums wall-clock time per stage of `Timings`."""

    def __init__(self) -> None:
        self._ms: dict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, *names: str, sign: float = 1.0) -> Iterator[None]:
        """Time a block under stages, also when it raises."""
        begin = perf_counter()
        try:
            yield
        finally:
            ms = (perf_counter() - begin) * 1000.0
            for name in names:
                self.note(name, sign * ms)

    def paused(self, *names: str) -> AbstractContextManager[None]:
        """Leave a block out of stages that are being timed around it."""
        return self.stage(*names, sign=-1.0)

    def note(self, name: str, ms: float) -> None:
        """Add time that was measured elsewhere."""
        self._ms[name] += ms

    def add(self, other: StageClock, share: float = 1.0) -> None:
        """Add a share of another clock's times: a batch's work, split over its recordings."""
        for stage, ms in other._ms.items():
            self._ms[stage] += ms * share

    def timings(self) -> Timings:
        """Return the sums so far."""
        return Timings(**{f"{stage}_ms": ms for stage, ms in self._ms.items()})


_FIRST_S: Final = 0.5
_LONGEST_S: Final = 30.0

_MOST_DOUBLINGS: Final = 16
"""More than enough for the longest wait; the power of a count without a limit would overflow."""


class Backoff:
    """Exponential back-off: 0.5 s, 1 s, 2 s, and so on to 30 s after consecutive failures."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._retry_s = float("-inf")
        self.n_failures = 0

    @property
    def is_over(self) -> bool:
        """True if it is time to retry."""
        return self._now() >= self._retry_s

    def fail(self) -> None:
        """Count a failure, and wait twice as long as after the one before."""
        wait_s = _FIRST_S * 2 ** min(self.n_failures, _MOST_DOUBLINGS)
        self._retry_s = self._now() + min(_LONGEST_S, wait_s)
        self.n_failures += 1

    def succeed(self) -> None:
        """End the wait, and begin with the shortest one after the next failure."""
        self._retry_s = float("-inf")
        self.n_failures = 0
