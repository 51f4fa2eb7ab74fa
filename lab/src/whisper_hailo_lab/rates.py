"""Counts of edit operations, the rates that follow from them, and how sure those are.

A corpus rate adds up the counts of all files before dividing, a mean rate averages the files'.
Intervals are percentile bootstraps of corpus rates, files drawn with replacement (Bisani & Ney,
2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.errors import OptionError


@dataclass(frozen=True, slots=True)
class Score:
    """Edit operations that lead from a reference to a hypothesis, in words or in characters.

    Attributes:
        hits: units that are equal in both.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    hits: int = 0

    @property
    def counts(self) -> list[int]:
        """All of it, as results keep it."""
        return [self.substitutions, self.deletions, self.insertions, self.hits]

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_count(self) -> int:
        return self.substitutions + self.deletions + self.hits

    @property
    def rate(self) -> float:
        """Errors per reference unit, in [0, inf]; see the module for empty references."""
        if self.reference_count == 0:
            return math.inf if self.insertions else 0.0
        return self.errors / self.reference_count

    def __add__(self, other: Score) -> Score:
        """Counts of both, as in a corpus rate."""
        return Score(
            substitutions=self.substitutions + other.substitutions,
            deletions=self.deletions + other.deletions,
            insertions=self.insertions + other.insertions,
            hits=self.hits + other.hits,
        )


def sum_scores(scores: Iterable[Score]) -> Score:
    """Counts of all files added up."""
    return sum(scores, Score())


def mean_rate(scores: Sequence[Score]) -> float:
    """Average of the files' rates, leaving out empty references; 0 where nothing is left."""
    rates = [score.rate for score in scores if score.reference_count]
    return sum(rates) / len(rates) if rates else 0.0


def confidence_interval(
    scores: Sequence[Score], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Interval of a corpus rate; draws without a reference unit give no rate and are left out.

    Args:
        scores: one per file.
        level: probability in (0, 1) that the interval is meant to cover.
        n_resamples: number of draws.
        seed: same seed, same interval.

    Returns:
        lower and upper bound of the rate; both the corpus rate when no draw has a reference.
    """
    rates = resample_rates([scores], level, n_resamples, seed)
    if not rates.size:
        rate = sum_scores(scores).rate
        return rate, rate
    return percentile_interval(rates[0], level)


def difference_interval(
    scores: Sequence[Score],
    others: Sequence[Score],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """The same for the corpus rate of `scores` less that of `others`, on the same files.

    Each draw takes the same files on both sides (Bisani & Ney, section 4): files that are hard for
    both do not widen it, so it shows differences that two intervals would hide.

    Raises:
        OptionError: `level` or `n_resamples` out of range, or other files.
    """
    if [one.reference_count for one in scores] != [one.reference_count for one in others]:
        raise OptionError(
            f"{len(scores)} and {len(others)} scores are not of the same files, expected pairs"
        )
    rates = resample_rates([scores, others], level, n_resamples, seed)
    return percentile_interval(rates[0] - rates[1], level) if rates.size else (0.0, 0.0)


def resample_rates(
    sides: Sequence[Sequence[Score]], level: float, n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Return corpus rates `(sides, draws)`, each draw the same files on every side."""
    if not 0.0 < level < 1.0 or n_resamples < 1:
        raise OptionError(
            f"level is {level} and n_resamples {n_resamples}, "
            "expected a level between 0 and 1 and one resample or more"
        )
    errors = np.array([[score.errors for score in side] for side in sides], dtype=np.int64)
    counts = np.array([score.reference_count for score in sides[0]], dtype=np.int64)
    drawn = np.random.default_rng(seed).integers(0, max(1, counts.size), (n_resamples, counts.size))
    drawn_counts = counts[drawn].sum(axis=1)
    rated = drawn_counts > 0
    if not rated.any():
        return np.empty((len(errors), 0))
    rates: NDArray[np.float64] = errors[:, drawn].sum(axis=2)[:, rated] / drawn_counts[rated]
    return rates


def percentile_interval(values: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the two ends of the middle that holds `level` of the values."""
    low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)
