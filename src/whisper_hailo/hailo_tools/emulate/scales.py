"""From what a tensor's values are like to the scale they are rounded with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.hailo_tools.emulate.histogram import Histogram

METHODS: Final = ("minmax", "percentile", "mse")

PERCENTILE: Final = 99.99
"""Share of the values, in percent, that `percentile` keeps within the range at each end."""

SHRINKS: Final = np.linspace(0.05, 1.0, 96)
"""Fractions of the whole range that `mse` tries."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Rounding of activations: `clip(round(x / step), low, high) * step`, halves to even.

    Zero is kept exactly. With a zero point `-low` the integers run from 0 to `high - low`, which
    is the chip's unsigned form.

    Attributes:
        step: what one integer stands for, a float32 value.
        low: smallest integer, 0 or less.
        high: largest integer, 0 or more.
    """

    step: float
    low: int
    high: int

    def rounded(self, x: FloatArray) -> FloatArray:
        """What is left of `x` after rounding."""
        step = np.float32(self.step)
        whole = np.clip(np.round(x / step), np.float32(self.low), np.float32(self.high))
        result: FloatArray = whole.astype(np.float32) * step
        return result


def scale_of(low: float, high: float, bits: int) -> Scale:
    """The scale that spans a range.

    Args:
        low: lower end; the range is widened to hold 0.
        high: upper end.
        bits: of the integers.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    largest = 2**bits - 1
    step = float(np.float32((high - low) / largest))
    if step == 0.0 or not np.isfinite(step):
        return Scale(1.0, 0, largest)
    zero_point = min(largest, max(0, round(-low / step)))
    return Scale(step, -zero_point, largest - zero_point)


def choose_scale(histogram: Histogram, bits: int, method: str) -> Scale:
    """The scale for a tensor whose values are like this.

    Args:
        histogram: of its values.
        bits: 8 or 16.
        method: `minmax` spans all values, `percentile` all but the outermost 0.01 % at each end,
            `mse` the fraction of the range that loses least in the mean square.

    Raises:
        OptionError: no such method.
    """
    check_method(method)
    if method == "percentile":
        return scale_of(*histogram.quantiles(1 - PERCENTILE / 100, PERCENTILE / 100), bits)
    whole = scale_of(histogram.low, histogram.high, bits)
    if method == "minmax":
        return whole
    ranges = [(histogram.low * shrink, histogram.high * shrink) for shrink in SHRINKS]
    scales = [scale_of(low, high, bits) for low, high in ranges[:-1]] + [whole]
    values, counts = histogram.centres()
    return min(scales, key=lambda scale: expected_error(values, counts, scale))


def expected_error(values: NDArray[np.float64], counts: NDArray[np.int64], scale: Scale) -> float:
    """Mean square error of rounding values of which there are so many each.

    Inside the range a value is off by at most half a step, evenly: step^2 / 12. Outside it is off
    by its distance to the end.
    """
    low, high = scale.low * scale.step, scale.high * scale.step
    beyond = np.maximum(low - values, 0) + np.maximum(values - high, 0)
    errors = np.where(beyond > 0, beyond**2, scale.step**2 / 12)
    return float(np.sum(errors * counts) / max(1, counts.sum()))


def rounded_weights(weights: FloatArray, bits: int, axis: int) -> FloatArray:
    """Weights rounded with one symmetric scale per output channel: -(2^(b-1) - 1) to 2^(b-1) - 1.

    Args:
        weights: any shape, float32.
        bits: 4, 8 or 16.
        axis: of the output channels.
    """
    largest = 2 ** (bits - 1) - 1
    others = tuple(i for i in range(weights.ndim) if i != axis)
    peak: NDArray[Any] = np.abs(weights).max(axis=others, keepdims=True)
    step = np.where(peak > 0, peak / np.float32(largest), np.float32(1)).astype(np.float32)
    result: FloatArray = np.clip(np.round(weights / step), -largest, largest) * step
    return result.astype(np.float32)


def check_method(method: str) -> None:
    """Refuse ways of choosing scales that do not exist.

    Raises:
        OptionError: no such method.
    """
    if method not in METHODS:
        raise OptionError(f"--scales is {method!r}, expected one of: {', '.join(METHODS)}")
