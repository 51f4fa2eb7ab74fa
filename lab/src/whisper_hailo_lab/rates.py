"""Counts of edit operations, and the rates that follow from them with their intervals.

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
    """Edit operations from a reference to a hypothesis, in words or in characters.

    Attributes:
        substitutions: units that were replaced.
        deletions: units that are missing.
        insertions: units that were added.
        hits: units that are equal in both.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    hits: int = 0

    @property
    def counts(self) -> list[int]:
        """Counts as a list, as results keep them."""
        return [self.substitutions, self.deletions, self.insertions, self.hits]

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_count(self) -> int:
        """Units of the reference."""
        return self.substitutions + self.deletions + self.hits

    @property
    def rate(self) -> float:
        """Errors per unit of the reference; for an empty reference 0 or infinity."""
        if self.reference_count == 0:
            return math.inf if self.insertions else 0.0
        return self.errors / self.reference_count

    def __add__(self, other: Score) -> Score:
        """Return the counts of both."""
        return Score(
            substitutions=self.substitutions + other.substitutions,
            deletions=self.deletions + other.deletions,
            insertions=self.insertions + other.insertions,
            hits=self.hits + other.hits,
        )


def sum_scores(scores: Iterable[Score]) -> Score:
    """Return the counts of all files."""
    return sum(scores, Score())


def mean_rate(scores: Sequence[Score]) -> float:
    """Return the mean of the files' rates without empty references; 0 if nothing is left."""
    rates = [score.rate for score in scores if score.reference_count]
    return sum(rates) / len(rates) if rates else 0.0


def confidence_interval(
    scores: Sequence[Score],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the lower and the upper bound of a corpus rate.

    Draws without a reference unit have no rate and are left out; if no draw has one, both bounds
    are the corpus rate.

    Args:
        scores: scores of the files.
        level: probability in (0, 1) that the interval covers.
        n_resamples: number of draws.
        seed: the same seed gives the same interval.

    Raises:
        OptionError: `level` or `n_resamples` is out of range.
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
    """Return the interval of the corpus rate of `scores` less that of `others`.

    Each draw has the same files on both sides (Bisani & Ney, section 4). So files that are hard
    for both do not widen the interval, and it shows differences that two intervals would hide.

    Raises:
        OptionError: `level` or `n_resamples` is out of range, or the files differ.
    """
    counts = [score.reference_count for score in scores]
    if counts != [score.reference_count for score in others]:
        raise OptionError(
            f"{len(scores)} and {len(others)} scores are not of the same files, expected pairs"
        )
    rates = resample_rates([scores, others], level, n_resamples, seed)
    if not rates.size:
        return (0.0, 0.0)
    return percentile_interval(rates[0] - rates[1], level)


def resample_rates(
    sides: Sequence[Sequence[Score]],
    level: float,
    n_resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Return corpus rates `(sides, draws)`; each draw has the same files on every side."""
    if not 0.0 < level < 1.0 or n_resamples < 1:
        raise OptionError(
            f"level is {level} and n_resamples {n_resamples}, "
            "expected a level between 0 and 1 and one resample or more"
        )
    errors = np.array(
        [[score.errors for score in side] for side in sides], dtype=np.int64
    )
    counts = np.array([score.reference_count for score in sides[0]], dtype=np.int64)
    rng = np.random.default_rng(seed)
    files = rng.integers(0, max(1, counts.size), (n_resamples, counts.size))
    drawn_counts = counts[files].sum(axis=1)
    has_rate = drawn_counts > 0
    if not has_rate.any():
        return np.empty((len(errors), 0))
    drawn_errors = errors[:, files].sum(axis=2)
    rates: NDArray[np.float64] = drawn_errors[:, has_rate] / drawn_counts[has_rate]
    return rates


def percentile_interval(
    values: NDArray[np.float64], level: float
) -> tuple[float, float]:
    """Return the bounds of the central interval that holds `level` of the values."""
    low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)
