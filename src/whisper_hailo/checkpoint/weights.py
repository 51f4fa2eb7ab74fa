"""Arrays that are made only at the moment they are written: conversion holds one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

AnyArray: TypeAlias = NDArray[Any]

STRIP_ROWS = 256


@dataclass(frozen=True, slots=True)
class Weight:
    """A promise of an array: its shape and dtype are known now, its values when `load` is called.

    Attributes:
        shape: as the array will have it.
        dtype: NumPy dtype name, such as `float32`.
        load: makes the array; called once for each time that it is written.
        strips: makes it in pieces along its first axis, where it need not be whole.
    """

    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], AnyArray]
    strips: Callable[[], Iterator[AnyArray]] | None = None

    def pieces(self) -> Iterator[AnyArray]:
        """The array from front to back, in as many pieces as suit it."""
        if self.strips is None:
            yield self.load()
        else:
            yield from self.strips()

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


def ready(array: AnyArray) -> Weight:
    """A weight whose array exists already."""
    return Weight(array.shape, array.dtype.name, lambda: array)


def zeros(n: int) -> Weight:
    """`(n,)` float32 zeros: the bias of a product that has none."""
    return Weight((n,), "float32", lambda: np.zeros(n, np.float32))


def transposed(weight: Weight) -> Weight:
    """Both axes swapped: Hugging Face keeps `(out, in)`, MatMul wants `(in, out)`."""
    n_out, n_in = weight.shape
    return Weight((n_in, n_out), weight.dtype, lambda: _turned(weight.load()))


def _turned(matrix: AnyArray) -> AnyArray:
    """Transposed copy, strip by strip: what fits the cache is turned several times faster."""
    n_out, n_in = matrix.shape
    turned = np.empty((n_in, n_out), matrix.dtype)
    for start in range(0, n_out, STRIP_ROWS):
        turned[:, start : start + STRIP_ROWS] = matrix[start : start + STRIP_ROWS].T
    return turned


def reshaped(weight: Weight, shape: tuple[int, ...]) -> Weight:
    """The same values under another shape."""
    return Weight(shape, weight.dtype, lambda: weight.load().reshape(shape))


def scaled(weight: Weight, factor: float) -> Weight:
    """Every value times a factor, in the weight's own dtype."""
    dtype = np.dtype(weight.dtype)
    return Weight(weight.shape, weight.dtype, lambda: weight.load() * dtype.type(factor))


def stacked(parts: Sequence[Weight]) -> Weight:
    """Joined along the first axis."""
    first = parts[0]
    n_rows = sum(part.shape[0] for part in parts)
    return Weight(
        (n_rows, *first.shape[1:]),
        first.dtype,
        lambda: np.concatenate([part.load() for part in parts]),
    )
