"""What a tensor's values are like, in memory that does not grow with their number."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

N_BINS: Final = 8192
"""Of the whole span; at least a quarter of them cover what the values really take."""


class Histogram:
    """Counts of values in equal bins around zero, and the exact ends.

    A value beyond the span doubles it, two bins becoming one, as often as needed: so one pass over
    the data is enough.

    Attributes:
        low: smallest finite value seen, or 0 if none was below it.
        high: largest finite value seen, or 0 if none was above it.
    """

    def __init__(self) -> None:
        self.low = 0.0
        self.high = 0.0
        self._span = 0.0
        self._counts: NDArray[np.int64] = np.zeros(N_BINS, np.int64)

    @property
    def n_values(self) -> int:
        return int(self._counts.sum())

    def add(self, values: NDArray[Any]) -> None:
        """Count values of any shape; those that are not finite are left out."""
        flat = np.asarray(values, np.float64).ravel()
        if not np.isfinite(flat).all():
            flat = flat[np.isfinite(flat)]
        if flat.size == 0:
            return
        self.low = min(self.low, float(flat.min()))
        self.high = max(self.high, float(flat.max()))
        self._widen(max(-self.low, self.high))
        if self._span == 0.0:  # nothing but zeros so far
            self._counts[N_BINS // 2] += flat.size
            return
        places = ((flat + self._span) * (N_BINS / (2 * self._span))).astype(np.int64)
        np.clip(places, 0, N_BINS - 1, out=places)
        self._counts += np.bincount(places, minlength=N_BINS)

    def centres(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Middle of every bin that is not empty, and its count; middles lie within the ends."""
        used = np.flatnonzero(self._counts)
        width = 2 * self._span / N_BINS
        middles = np.clip(-self._span + (used + 0.5) * width, self.low, self.high)
        return middles, self._counts[used]

    def quantiles(self, lower: float, upper: float) -> tuple[float, float]:
        """Values that these shares of all values lie below, to the width of a bin."""
        middles, counts = self.centres()
        if counts.size == 0:
            return 0.0, 0.0
        below = np.cumsum(counts) / counts.sum()
        first = int(np.searchsorted(below, lower, side="right"))
        last = int(np.searchsorted(below, upper, side="left"))
        top = counts.size - 1
        return float(middles[min(first, top)]), float(middles[min(last, top)])

    def _widen(self, largest: float) -> None:
        if largest <= self._span:
            return
        if self._span == 0.0:
            self._span = largest
            return
        while self._span < largest:
            pairs = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.zeros(N_BINS, np.int64)
            quarter = N_BINS // 4
            self._counts[quarter : quarter + N_BINS // 2] = pairs
            self._span *= 2
