"""A `.npy` file that grows row by row: written in order, so that a full disk is an error."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from whisper_hailo.core.types import FloatArray

_HEADER_BYTES = 192


class RowsFile:
    """Float32 rows `(n, *shape)` on their way to disk.

    A memory-mapped file would end the process when the disk is full; this one raises `OSError`.

    Args:
        path: the file; what is there is kept up to `n_kept` rows.
        shape: of one row.
        n_kept: rows of an earlier run that count.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], n_kept: int) -> None:
        self._shape = shape
        self._row_bytes = 4 * int(np.prod(shape))
        size = _HEADER_BYTES + n_kept * self._row_bytes
        self._file = path.open("r+b" if n_kept else "wb")
        if not n_kept:
            self._file.write(b"\0" * _HEADER_BYTES)
        self._file.truncate(size)
        self._file.seek(size)

    def append(self, row: FloatArray) -> None:
        """Write one row.

        Raises:
            ValueError: its shape is not that of the file.
        """
        if row.shape != self._shape:
            raise ValueError(f"a row is {row.shape}, expected {self._shape}")
        self._file.write(np.ascontiguousarray(row, dtype="<f4").tobytes())

    def sync(self) -> None:
        """Hand everything to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self, n_rows: int) -> None:
        """Write the header for `n_rows` rows."""
        self._file.seek(0)
        self._file.write(_header((n_rows, *self._shape)))
        self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def holds_rows(path: Path, shape: tuple[int, ...], n_rows: int) -> bool:
    """Whether an unfinished file has at least so many rows."""
    size = _HEADER_BYTES + n_rows * 4 * int(np.prod(shape))
    return path.is_file() and path.stat().st_size >= size


def _header(shape: tuple[int, ...]) -> bytes:
    """Header of a float32 array, of one length whatever the number of rows."""
    buffer = BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, layout)
    text = buffer.getvalue()[10:].rstrip()
    padded = text.ljust(_HEADER_BYTES - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded
