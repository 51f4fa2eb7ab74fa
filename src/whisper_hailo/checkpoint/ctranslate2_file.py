"""Reads the variables of a CTranslate2 `model.bin` in place.

The layout is that of CTranslate2's `python/ctranslate2/specs/model_spec.py`. Every count and length
is checked against the rest of the file before anything is read or skipped.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np

from whisper_hailo.checkpoint.weights import DTYPES, STORED_DTYPES, AnyArray, StoredArray
from whisper_hailo.core.errors import ModelError, shown

BINARY_VERSION: Final = 6
"""Of CTranslate2 since 2022."""
SPEC_NAME: Final = "WhisperSpec"
SPEC_REVISION: Final = 3
"""Of Whisper models since CTranslate2 3.6 (2023)."""
TYPES: Final = ("F32", "I8", "I16", "I32", "F16", "BF16")
"""In the order of CTranslate2's numbers for them."""

SCALE_SUFFIX: Final = "_scale"
_GLOBAL_INT16_SCALE: Final = 1000.0
"""For int16 arrays without their own scale."""
_LEAST_SCALE: Final = 1e-7
"""A smaller divisor would make weights of a million and more."""
_MOST_VARIABLES: Final = 1 << 14
"""Eight times those of large-v3 with scales."""
_MOST_AXES: Final = 3


@dataclass(frozen=True, slots=True)
class QuantizedArray:
    """Whole numbers, to be divided by scales: one per row, one for all, or a constant."""

    stored: StoredArray
    scale: StoredArray | float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.stored.shape

    @property
    def dtype(self) -> str:
        """One of `TYPES`."""
        return self.stored.dtype

    def read(self) -> AnyArray:
        """Read all of it as float32."""
        return self.rows(0, self.shape[0])

    def rows(self, start: int, stop: int) -> AnyArray:
        """Read some rows as float32."""
        values = self.stored.rows(start, stop)
        scale = self._scale(start, stop)
        if not scale.min() > _LEAST_SCALE:
            raise ModelError(
                f"{shown(self.stored.path)}: array {self.stored.name} has scale {scale.min():g}, "
                "expected a positive number; fetch the file again"
            )
        if scale.ndim:
            scale = scale.reshape(-1, *(1 for _ in self.shape[1:]))
        return values / scale

    def _scale(self, start: int, stop: int) -> AnyArray:
        if isinstance(self.scale, float):
            return np.asarray(self.scale, np.float32)
        return self.scale.rows(start, stop) if self.scale.shape else self.scale.read()


CheckpointArray: TypeAlias = StoredArray | QuantizedArray


def slice_rows(array: CheckpointArray, start: int, stop: int) -> CheckpointArray:
    """Return some rows as an array, without reading them."""
    if isinstance(array, QuantizedArray):
        has_rows = isinstance(array.scale, StoredArray) and array.scale.shape
        return QuantizedArray(
            _slice(array.stored, start, stop),
            _slice(array.scale, start, stop) if has_rows else array.scale,  # type: ignore[arg-type]
        )
    return _slice(array, start, stop)


def _slice(array: StoredArray, start: int, stop: int) -> StoredArray:
    row_bytes = math.prod(array.shape[1:]) * STORED_DTYPES[array.dtype].itemsize
    shape = (stop - start, *array.shape[1:])
    return replace(array, shape=shape, offset=array.offset + start * row_bytes)


def read_variables(path: Path) -> dict[str, CheckpointArray]:
    """Return the variables of a `model.bin` by name, with scales and aliases.

    Raises:
        ModelError: unreadable, truncated, or not a Whisper model of CTranslate2.
    """
    try:
        with path.open("rb") as file:
            stored, aliases = _Reader(file, path).read_all()
    except OSError as error:
        raise ModelError(f"{shown(path)} cannot be read ({error.strerror or error})") from error
    except _FormatError as error:
        raise ModelError(f"{shown(path)} {error}") from error
    try:
        found = {
            name: _with_scale(array, stored)
            for name, array in stored.items()
            if not name.endswith(SCALE_SUFFIX)
        }
    except _FormatError as error:
        raise ModelError(f"{shown(path)}: {error}; fetch the file again") from error
    return found | {alias: found[name] for alias, name in aliases.items() if name in found}


class _FormatError(Exception):
    """The file has unexpected content; says which, and what to do."""


class _Reader:
    """Reads the fields of a `model.bin` in order."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._size = path.stat().st_size

    def read_all(self) -> tuple[dict[str, StoredArray], dict[str, str]]:
        """Return the variables by name, and the name that each alias stands for."""
        self._read_head()
        stored = {}
        for _ in range(self._count("variables")):
            array = self._variable()
            if array.name in stored:
                raise _FormatError(f"has two variables {array.name}; fetch the file again")
            stored[array.name] = array
        pairs = [(self._text(), self._text()) for _ in range(self._count("aliases"))]
        return stored, dict(pairs)

    def _read_head(self) -> None:
        version = self._number("I")
        if version != BINARY_VERSION:
            raise _FormatError(
                f"begins with {version}, expected {BINARY_VERSION}, the version of CTranslate2's "
                "files; give a model converted by CTranslate2 3.6 or newer, or the checkpoint that "
                "it was made of"
            )
        name = self._text()
        if name != SPEC_NAME:
            raise _FormatError(
                f"is a CTranslate2 model of kind {name[:60]!r}, expected {SPEC_NAME!r}; give a "
                "Whisper model"
            )
        revision = self._number("I")
        if revision != SPEC_REVISION:
            raise _FormatError(
                f"has revision {revision} of {SPEC_NAME}, expected {SPEC_REVISION}; give a model "
                "converted by CTranslate2 3.6 or newer, or the checkpoint that it was made of"
            )

    def _count(self, what: str) -> int:
        count = self._number("I")
        if count > _MOST_VARIABLES:
            raise _FormatError(
                f"names {count} {what}, expected {_MOST_VARIABLES} at most; fetch the file again"
            )
        return count

    def _variable(self) -> StoredArray:
        name, n_axes = self._text(), self._number("B")
        if n_axes > _MOST_AXES:
            raise _FormatError(
                f"has {n_axes} axes in {name}, expected {_MOST_AXES} at most; fetch the file again"
            )
        shape = tuple(self._number("I") for _ in range(n_axes))
        type_id, n_bytes = self._number("B"), self._number("I")
        if type_id >= len(TYPES):
            raise _FormatError(
                f"has number format {type_id} in {name}, expected 0 to {len(TYPES) - 1}; give a "
                "model of float32, float16, bfloat16, int16 or int8"
            )
        dtype = TYPES[type_id]
        expected = math.prod(shape) * STORED_DTYPES[dtype].itemsize
        if n_bytes != expected or not n_bytes:
            raise _FormatError(
                f"has {n_bytes} bytes in {name}, expected {expected} for the shape {shape}; fetch "
                "the file again"
            )
        offset = self._file.tell()
        self._expect(n_bytes)
        self._file.seek(n_bytes, 1)
        return StoredArray(self._path, name, dtype, shape, offset)

    def _text(self) -> str:
        """Read a string: its length with the null byte at its end, then its bytes."""
        raw = self._take(self._number("H"))
        try:
            if not raw.endswith(b"\0"):
                raise ValueError
            return raw[:-1].decode("ascii")
        except ValueError:
            raise _FormatError("has a broken name in it; fetch the file again") from None

    def _number(self, kind: str) -> int:
        (value,) = struct.unpack(f"<{kind}", self._take(struct.calcsize(f"<{kind}")))
        return int(value)

    def _take(self, n_bytes: int) -> bytes:
        self._expect(n_bytes)
        return self._file.read(n_bytes)

    def _expect(self, n_bytes: int) -> None:
        left = self._size - self._file.tell()
        if n_bytes > left:
            raise _FormatError(
                f"is not complete: it ends {n_bytes - left} bytes too early; fetch the file again"
            )


def _with_scale(array: StoredArray, stored: dict[str, StoredArray]) -> CheckpointArray:
    """Return a variable with its scales, if it has whole numbers."""
    if array.dtype in DTYPES or not array.shape:
        return array
    scale = stored.get(array.name + SCALE_SUFFIX)
    if scale is None and array.dtype == "I16":
        return QuantizedArray(array, _GLOBAL_INT16_SCALE)
    wanted: Any = ((), (1,)) if array.dtype == "I16" else (array.shape[:1],)
    if scale is None or scale.dtype not in DTYPES or scale.shape not in wanted:
        got = "none" if scale is None else f"{scale.dtype} {scale.shape}"
        raise _FormatError(
            f"array {array.name} of {array.dtype} {array.shape} has scales {got}, expected floats "
            f"{wanted[0]}"
        )
    return QuantizedArray(array, replace(scale, shape=()) if scale.shape == (1,) else scale)
