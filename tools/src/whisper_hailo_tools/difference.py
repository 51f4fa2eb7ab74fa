"""Differences of values from a reference: absolute ones, cosine, signal-to-noise ratios."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from whisper_hailo.checkpoint.weights import AnyArray


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of an array from a reference.

    Attributes:
        max_abs: largest absolute difference; infinite where a value is not finite.
        mean_abs: mean absolute difference.
        relative: largest difference over `max(1, largest reference value)`.
        cosine: of the angle between both, all values as one vector.
        snr_db: signal-to-noise ratio: energy of the reference over energy of the difference;
            infinite for equal arrays.
        psnr_db: the same with the square of the largest reference value as every value's energy.
    """

    max_abs: float
    mean_abs: float
    relative: float
    cosine: float
    snr_db: float
    psnr_db: float

    def to_dict(self) -> dict[str, float | None]:
        """Return the values for JSON, which has no infinity: `None` in its place."""
        values: dict[str, float] = asdict(self)
        return {
            key: value if math.isfinite(value) else None
            for key, value in values.items()
        }


@dataclass(slots=True)
class DifferenceTally:
    """Sums over pieces of two arrays."""

    n: int = 0
    max_abs: float = 0.0
    peak: float = 0.0
    sum_abs: float = 0.0
    noise: float = 0.0
    signal: float = 0.0
    other: float = 0.0
    product: float = 0.0

    def add(self, got: AnyArray, expected: AnyArray) -> None:
        """Count one piece; both arrays have one shape, and the reference finite values."""
        a = np.asarray(got, np.float64).ravel()
        b = np.asarray(expected, np.float64).ravel()
        if not np.isfinite(a).all():
            self.max_abs = math.inf
            a = np.nan_to_num(a, nan=0.0, posinf=0.0, neginf=0.0)
        if b.size == 0:
            return
        errors = np.abs(a - b)
        self.n += b.size
        self.max_abs = max(self.max_abs, float(errors.max()))
        self.peak = max(self.peak, float(np.abs(b).max()))
        self.sum_abs += float(errors.sum())
        self.noise += float(errors @ errors)
        self.signal += float(b @ b)
        self.other += float(a @ a)
        self.product += float(a @ b)

    def difference(self) -> Difference:
        """Return the difference over all pieces so far."""
        lengths = math.sqrt(self.signal * self.other)
        if lengths:
            cosine = min(1.0, self.product / lengths)
        else:
            cosine = 1.0 if self.signal == self.other else 0.0
        return Difference(
            max_abs=self.max_abs,
            mean_abs=self.sum_abs / self.n if self.n else 0.0,
            relative=self.max_abs / max(1.0, self.peak),
            cosine=cosine,
            snr_db=_to_decibels(self.signal, self.noise, self.max_abs),
            psnr_db=_to_decibels(self.peak**2 * self.n, self.noise, self.max_abs),
        )


def difference(got: AnyArray, expected: AnyArray) -> Difference:
    """Compare two arrays of one shape."""
    tally = DifferenceTally()
    tally.add(got, expected)
    return tally.difference()


def _to_decibels(signal: float, noise: float, worst: float) -> float:
    if not math.isfinite(worst):
        return -math.inf
    if noise == 0:
        return math.inf
    if signal == 0:
        return -math.inf
    return 10 * math.log10(signal / noise)
