"""Bootstrap of corpus rates: files drawn with replacement (Bisani & Ney, 2004)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.errors import OptionError

Counts: TypeAlias = NDArray[np.int64]
FloatTable: TypeAlias = NDArray[np.float64]


def drawn_rates(
    errors: Counts, counts: Counts, level: float, n_resamples: int, seed: int
) -> FloatTable:
    """Corpus rates of sets of files drawn at random, each draw the same files on every side.

    Args:
        errors: `(sides, files)`.
        counts: `(files,)` reference units.
        level: that the interval will have, only checked.
        n_resamples: number of draws.
        seed: same seed, same draws.

    Returns:
        `(sides, draws)`, without the draws that have no reference unit.

    Raises:
        OptionError: `level` or `n_resamples` out of range.
    """
    if not 0.0 < level < 1.0 or n_resamples < 1:
        raise OptionError(
            f"level is {level} and n_resamples {n_resamples}, "
            "expected a level between 0 and 1 and one resample or more"
        )
    n_files = counts.size
    drawn = np.random.default_rng(seed).integers(0, max(1, n_files), (n_resamples, n_files))
    drawn_counts = counts[drawn].sum(axis=1)
    rated = drawn_counts > 0
    if not rated.any():
        return np.empty((len(errors), 0))
    rates: FloatTable = errors[:, drawn].sum(axis=2)[:, rated] / drawn_counts[rated]
    return rates


def quantiles(values: FloatTable, level: float) -> tuple[float, float]:
    """The two ends of the middle that holds `level` of the values."""
    low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)
