"""Answers that a chip may give without an error, as the machine's `answers` names them.

All are wrong but `bias`, which the host can take away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Answer = Callable[[Any, Any], Any]
"""Function of the right output and that of the run before (`None` before the first)."""

_RANDOM = np.random.default_rng(0)


def _noise(right: Any, _: Any) -> Any:
    return _RANDOM.standard_normal(right.shape).astype(np.float32)


def _axes(right: Any, _: Any) -> Any:
    """The same numbers, channels first."""
    *_, positions, channels = right.shape
    matrix = right.reshape(positions, channels)
    return np.ascontiguousarray(matrix.T).reshape(right.shape)


def _stale(right: Any, before: Any) -> Any:
    return np.zeros_like(right) if before is None else before


def _bias(right: Any, _: Any) -> Any:
    """Channels off by 1.5 in turn, up and down: rounding whose bias nothing corrected."""
    signs = np.resize(np.array([1.5, -1.5], np.float32), right.shape[-1])
    return right + signs


ANSWERS: Final[dict[str, Answer]] = {
    "zeros": lambda right, _: np.zeros_like(right),
    "noise": _noise,
    "stale": _stale,
    "axes": _axes,
    "scale": lambda right, _: right * np.float32(0.5),
    "channel": lambda right, _: np.roll(right, 1, axis=-1),
    "bias": _bias,
    "nan": lambda right, _: np.full_like(right, np.nan),
}
