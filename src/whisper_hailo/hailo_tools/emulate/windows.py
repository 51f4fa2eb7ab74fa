"""Reads calibration sets window by window, whatever their size."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.core.names import shown
from whisper_hailo.core.types import FloatArray
from whisper_hailo.hailo_tools.emulate.run import Feeds


class WindowFile:
    """A calibration set of one part, checked against its graph.

    Args:
        path: the `.npy` of an encoder or the `.npz` of a decoder, from `whisper-hailo calibrate`.
        form: the graph that it is for.
        entries: the graph's values that the rows become, in the order of the chip's inputs.

    Raises:
        ModelError: unreadable, empty, or of other shapes.
    """

    def __init__(self, path: Path, form: HailoForm, entries: tuple[str, ...]) -> None:
        self._path = path
        self._form = form
        self._entries = entries
        self._shapes = [tuple(shape[1:]) for shape in form.chip_inputs]
        with ExitStack() as stack:
            counts = {header[0] for _, header in self._streams(stack)}
        if len(counts) != 1 or 0 in counts:
            raise ModelError(
                f"{shown(path)} holds no windows, or not one of each input; {self._advice()}"
            )
        self.n_windows = counts.pop()

    def read(self, start: int, stop: int) -> Iterator[Feeds]:
        """Windows `start` to `stop` as the graph's values; one at a time is in memory."""
        with ExitStack() as stack:
            streams = self._streams(stack)
            for index in range(min(stop, self.n_windows)):
                rows = [
                    self._row(stream, shape)
                    for (stream, _), shape in zip(streams, self._shapes, strict=True)
                ]
                if index >= start:
                    yield {
                        name: self._as_value(name, row)
                        for name, row in zip(self._entries, rows, strict=True)
                    }

    def _row(self, stream: IO[bytes], shape: tuple[int, ...]) -> FloatArray:
        size = 4 * int(np.prod(shape))
        data = stream.read(size)
        if len(data) != size:
            raise ModelError(f"{shown(self._path)} ends early; {self._advice()}")
        row: FloatArray = np.frombuffer(data, "<f4").reshape(shape)
        return row

    def _as_value(self, name: str, row: FloatArray) -> FloatArray:
        """`(height, width, channels)` as the graph has it: NCHW, or without the height of one."""
        wanted = self._form.inputs.get(name)
        if wanted is not None and len(wanted) == 3:
            return row
        return np.ascontiguousarray(row[np.newaxis].transpose(0, 3, 1, 2))

    def _streams(self, stack: ExitStack) -> list[tuple[IO[bytes], tuple[int, ...]]]:
        """Each input's rows, and the shape that their header gives."""
        try:
            if len(self._shapes) == 1:
                opened: list[IO[bytes]] = [stack.enter_context(self._path.open("rb"))]
            else:
                archive = stack.enter_context(zipfile.ZipFile(self._path))
                names = sorted(name for name in archive.namelist() if "input_layer" in name)
                opened = [stack.enter_context(archive.open(name)) for name in names]
            headers = [_header(stream) for stream in opened]
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise ModelError(
                f"{shown(self._path)} is no calibration set ({error}); {self._advice()}"
            ) from error
        expected = [("<f4", shape) for shape in self._shapes]
        if [(dtype, shape[1:]) for dtype, shape in headers] != expected:
            raise ModelError(
                f"{shown(self._path)} holds {', '.join(f'{t} {s}' for t, s in headers)}, expected "
                f"float32 (n, {'), (n, '.join(str(shape)[1:-1] for shape in self._shapes)}); "
                f"{self._advice()}"
            )
        return [(stream, shape) for stream, (_, shape) in zip(opened, headers, strict=True)]

    def _advice(self) -> str:
        return (
            f"make it with: whisper-hailo calibrate MODEL_DIR --audio DIR --part {self._form.part}"
        )


def _header(stream: IO[bytes]) -> tuple[str, tuple[int, ...]]:
    """Type and shape of a `.npy`; the stream stands at its first row afterwards."""
    version = np.lib.format.read_magic(stream)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(stream)
    if fortran or not shape:
        raise ValueError("not stored row by row")
    return dtype.str, shape
