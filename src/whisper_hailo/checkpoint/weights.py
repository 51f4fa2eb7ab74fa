"""Lazy weights, which are made when they are written: a conversion holds one at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.strict_json import (
    LARGEST_BYTES,
    MismatchError,
    decode,
    parse_json,
)

AnyArray: TypeAlias = NDArray[Any]

STRIP_ROWS = 256
"""Rows that are transposed at once."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A lazy array: its shape and dtype are known, its values are made by `load`.

    Attributes:
        dtype: NumPy dtype name, such as `float32`.
        load: makes the array; called each time that it is written.
        strips: makes it in pieces along its first axis, if possible.
    """

    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], AnyArray]
    strips: Callable[[], Iterator[AnyArray]] | None = None

    def pieces(self) -> Iterator[AnyArray]:
        """Yield the array in order, in as many pieces as suit it."""
        if self.strips is None:
            yield self.load()
        else:
            yield from self.strips()

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def map(
        self,
        change: Callable[[AnyArray], AnyArray],
        shape: tuple[int, ...] | None = None,
    ) -> Weight:
        """Return a weight that `change` makes of this one's array.

        It has the given shape, by default the same one, and the same dtype.
        """
        return Weight(shape or self.shape, self.dtype, lambda: change(self.load()))


def ready_weight(array: AnyArray) -> Weight:
    """Return the weight of an existing array."""
    return Weight(array.shape, array.dtype.name, lambda: array)


def transposed_weight(weight: Weight) -> Weight:
    """Return a weight with both axes swapped.

    Checkpoints hold `(out, in)`, the operator MatMul takes `(in, out)`.
    """
    return weight.map(_transpose, weight.shape[::-1])


def _transpose(matrix: AnyArray) -> AnyArray:
    """Return a transposed copy, made strip by strip: those that fit the cache are quicker."""
    n_out, n_in = matrix.shape
    transposed = np.empty((n_in, n_out), matrix.dtype)
    for start in range(0, n_out, STRIP_ROWS):
        strip = slice(start, start + STRIP_ROWS)
        transposed[:, strip] = matrix[strip].T
    return transposed


def stacked_weight(parts: Sequence[Weight]) -> Weight:
    """Return weights joined along their first axis."""
    first = parts[0]
    n_rows = sum(part.shape[0] for part in parts)

    def load() -> AnyArray:
        return np.concatenate([part.load() for part in parts])

    return Weight((n_rows, *first.shape[1:]), first.dtype, load)


DTYPES: Final[dict[str, Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
"""Number formats of checkpoints, as the file names them."""

STORED_DTYPES: Final[dict[str, Any]] = {
    **DTYPES,
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}
"""Also those of whole numbers, which need scales."""

TOO_LARGE: Final = 1e12
"""Far beyond any weight; sums of squares of smaller ones stay in float32's range."""

_LEAST_SCALE: Final = 1e-7
"""A smaller divisor would make weights of a million and more."""

_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class StoredArray:
    """One array in a file.

    Attributes:
        dtype: one of `STORED_DTYPES`, or the file's name of another number format.
        offset: of the first byte in the file.
        scale: `(n_rows,)`, by which whole numbers are divided.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    scale: StoredArray | None = None

    def rows(self, start: int, stop: int) -> StoredArray:
        """Return some rows as an array, without reading them."""
        row_bytes = math.prod(self.shape[1:]) * STORED_DTYPES[self.dtype].itemsize
        scale = None if self.scale is None else self.scale.rows(start, stop)
        return replace(
            self,
            shape=(stop - start, *self.shape[1:]),
            offset=self.offset + start * row_bytes,
            scale=scale,
        )

    def read(self) -> AnyArray:
        """Read it as float32.

        Raises:
            ModelError: it cannot be read, or holds no numbers that a model computes with.
        """
        values: AnyArray = self._read_stored().astype(np.float32, copy=False)
        if self.scale is not None:
            scale = self.scale.read()
            lowest = scale.min()
            if not lowest > _LEAST_SCALE:  # also if it is NaN
                raise ModelError(
                    f"{display_path(self.path)}: array {self.name} has scale {lowest:g}, "
                    "expected a positive number; fetch the file again"
                )
            n_other_axes = len(self.shape) - 1
            values = values / scale.reshape(-1, *[1] * n_other_axes)
        largest = np.maximum(-values.min(), values.max())  # NaN, if there is one
        if not largest < TOO_LARGE:
            raise ModelError(
                f"{display_path(self.path)}: array {self.name} has values up to {largest:g}, "
                "which no model can compute with; fetch the file again"
            )
        return values

    def _read_stored(self) -> AnyArray:
        """Read it in the file's own number format."""
        dtype = STORED_DTYPES[self.dtype]
        count = math.prod(self.shape)
        try:
            array = np.fromfile(self.path, dtype, count, offset=self.offset)
        except OSError as error:
            raise ModelError(
                f"{display_path(self.path)} cannot be read ({error.strerror or error})"
            ) from error
        if array.size != count:  # its header was checked when it was opened
            raise ModelError(
                f"{display_path(self.path)} was truncated while it was read; fetch the file again"
            )
        return array.reshape(self.shape)


def stored_arrays(path: Path) -> dict[str, StoredArray]:
    """Return the arrays of a safetensors file by name.

    The file begins with the length of its header and the header, a JSON object; offsets count from
    the header's end.

    Raises:
        ModelError: no such file, or not a complete one.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if length > LARGEST_BYTES:
                raise MismatchError(f"its header has {length} bytes")
            raw = parse_json(file.read(length))
        entries = decode(dict[str, Any], raw, "its header")
        entries.pop("__metadata__", None)
        stored = decode(dict[str, _Entry], entries, "its header")
        # Checks that header and length of the file agree.
        with safe_open(path, framework="np"):
            pass
    except (SafetensorError, OSError, MismatchError) as error:
        raise ModelError(
            f"{display_path(path)} is not a complete safetensors file "
            f"({getattr(error, 'strerror', None) or error}); fetch the file again"
        ) from error
    header_end = _LENGTH_BYTES + length
    arrays = {}
    for name, entry in stored.items():
        start, _ = entry.data_offsets
        arrays[name] = StoredArray(
            path, name, entry.dtype, entry.shape, header_end + start
        )
    return arrays


@dataclass(frozen=True, slots=True)
class _Entry:
    """The header's entry of one array."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]
