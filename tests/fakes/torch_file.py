"""Writes `.pt` files as PyTorch does, without PyTorch."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

_STORAGES = {"<f4": "FloatStorage", "<f2": "HalfStorage"}


def _text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _tensor(key: str, array: np.ndarray[Any, Any], strides: tuple[int, ...]) -> bytes:
    storage = b"ctorch\n" + _STORAGES[array.dtype.str].encode() + b"\n"
    reference = b"(" + _text("storage") + storage + _text(key) + _text("cpu")
    reference += _number(array.size) + b"tQ"
    shape = b"(" + b"".join(map(_number, array.shape)) + b"t"
    steps = b"(" + b"".join(map(_number, strides)) + b"t"
    hooks = b"ccollections\nOrderedDict\n)R"
    arguments = b"(" + reference + _number(0) + shape + steps + b"\x89" + hooks + b"t"
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"


def write_pt(
    path: Path,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    dims: Mapping[str, int],
    *,
    transposed: bool = False,
) -> None:
    """Write `{"dims": ..., "model_state_dict": ...}`."""
    pickle = b"\x80\x02}(" + _text("dims") + b"}("
    for name, size in dims.items():
        pickle += _text(name) + _number(size)
    pickle += b"u" + _text("model_state_dict") + b"}("
    with ZipFile(path, "w") as archive:
        for index, (name, array) in enumerate(arrays.items()):
            strides = tuple(step // array.itemsize for step in array.strides)
            if transposed:
                strides = strides[::-1]
            pickle += _text(name) + _tensor(str(index), array, strides)
            archive.writestr(f"model/data/{index}", array.tobytes())
        archive.writestr("model/data.pkl", pickle + b"uu.")


def write_state_dict(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays by name, as `torch.save(model.state_dict(), path)`."""
    pickle = b"\x80\x02ccollections\nOrderedDict\n)R("
    with ZipFile(path, "w") as archive:
        for index, (name, array) in enumerate(arrays.items()):
            strides = tuple(step // array.itemsize for step in array.strides)
            pickle += _text(name) + _tensor(str(index), array, strides)
            archive.writestr(f"archive/data/{index}", array.tobytes())
        archive.writestr("archive/data.pkl", pickle + b"u.")


def write_pickle(path: Path, pickle: bytes) -> None:
    """Write an archive with a pickle alone."""
    with ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", pickle)
