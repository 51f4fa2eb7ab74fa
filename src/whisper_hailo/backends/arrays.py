"""Small steps with arrays that the runtime reads or writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.types import IntArray

AnyArray: TypeAlias = NDArray[Any]
Named: TypeAlias = dict[str, AnyArray]
ItemT = TypeVar("ItemT", bound=np.generic)


def rows_of(arrays: Sequence[NDArray[ItemT]], rows: IntArray) -> tuple[NDArray[ItemT], ...]:
    """Some rows of each array, in that order; rows that follow each other stay where they are."""
    first = int(rows[0]) if rows.size else 0
    if rows.size and rows.tolist() == list(range(first, first + rows.size)):
        return tuple(array[first : first + rows.size] for array in arrays)
    return tuple(array[rows] for array in arrays)


def constant(array: NDArray[ItemT]) -> NDArray[ItemT]:
    """An array that owns its memory, which nobody writes to from now on.

    Whoever has read it, or a view of it, need not do so again.
    """
    array.flags.writeable = False
    return array


def is_constant(array: AnyArray) -> bool:
    """Whether nobody can write to an array: a view of one that can be written to is none."""
    owner = array if array.base is None else array.base
    return isinstance(owner, np.ndarray) and not owner.flags.writeable


def bind_in_place(io: Any, name: str, array: AnyArray) -> None:  # noqa: ANN401 - a C++ class
    """Let the runtime write an output into a contiguous array, which must outlive the run."""
    address = array.__array_interface__["data"][0]  # array.ctypes makes objects, each time
    io.bind_output(name, "cpu", 0, array.dtype.type, array.shape, address)
