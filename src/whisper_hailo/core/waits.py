"""Waits that grow from try to try."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_FIRST_S: Final = 0.5
_LONGEST_S: Final = 30.0


class GrowingWait:
    """When something that failed is to be tried again: after 0.5 s, 1 s, 2 s, and so on to 30 s.

    Attributes:
        n_failures: on end.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._again_s = float("-inf")
        self.n_failures = 0

    @property
    def is_over(self) -> bool:
        """Whether it may be tried."""
        return self._now() >= self._again_s

    def fail(self) -> None:
        """It failed: wait twice as long as the last time."""
        self._again_s = self._now() + min(_LONGEST_S, _FIRST_S * 2 ** min(self.n_failures, 16))
        self.n_failures += 1

    def succeed(self) -> None:
        """It did not: the next failure is a first one."""
        self._again_s, self.n_failures = float("-inf"), 0
