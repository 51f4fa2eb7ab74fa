"""Calibration sets: rows streamed to disk with a manifest beside them, so that a run can resume."""

from __future__ import annotations

import json
import logging
import math
import os
import zipfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.atomic_files import atomic_file, write_file
from whisper_hailo.core.errors import AudioError, ModelError, OutputError, display_path
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.calibrate.windows import (
    RowMaker,
    Sources,
    add_file,
    draw,
    find_sources,
    net_name,
    no_speech_error,
    open_row_maker,
)
from whisper_hailo_tools.hef_build.model_script import default_windows, size_of
from whisper_hailo_tools.options import CalibrationOptions, CalibrationSet

MANIFEST_VERSION = 2


@dataclass(slots=True)
class Manifest:
    """The state of one set.

    Attributes:
        settings: everything that the rows depend on; another run continues this one only where all
            of it is the same.
        used: `{"file", "sha256", "windows"}` in the order of the rows.
        skipped: file to the reason why it was not used.
        turn: number of the turn through the files that is under way.
        position: index of the next file in it.
        files: names, sizes and hashes of a finished set.
    """

    settings: dict[str, Any]
    used: list[dict[str, Any]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    n_rows: int = 0
    turn: int = 0
    position: int = 0
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, settings: dict[str, Any]) -> Manifest | None:
        """Read the manifest of a set with these settings; `None` if there is none."""
        try:
            raw = read_json_object(path)
            if (
                raw.get("version") != MANIFEST_VERSION
                or raw.get("settings") != settings
            ):
                return None
            return decode(cls, raw)
        except (ModelError, MismatchError):
            return None

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        text = (
            json.dumps({"version": MANIFEST_VERSION, **asdict(self)}, indent=1) + "\n"
        )
        write_file(path, text)


class RowsFile:
    """Float32 rows `(n, *shape)` being written to disk as a `.npy`.

    A memory-mapped file would end the process when the disk is full; this one raises `OSError`.

    Args:
        path: the file, of which the first `n_kept` rows, an earlier run's, stay.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], n_kept: int) -> None:
        self._shape = shape
        self._file = path.open("r+b" if n_kept else "wb")
        self._file.truncate(bytes_of_rows(shape, n_kept))
        self.finish(n_kept)
        self._file.seek(0, os.SEEK_END)

    def append(self, row: FloatArray) -> None:
        """Write one row."""
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
        self._file.write(_write_header(self._shape, n_rows))
        self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def bytes_of_rows(shape: tuple[int, ...], n_rows: int) -> int:
    """Return the size of a file of rows."""
    return len(_write_header(shape, n_rows)) + n_rows * 4 * math.prod(shape)


def _write_header(shape: tuple[int, ...], n_rows: int) -> bytes:
    """Return a `.npy` header; NumPy leaves room in it for the number of rows to grow."""
    buffer = BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, *shape)}
    np.lib.format.write_array_header_1_0(buffer, layout)
    return buffer.getvalue()


logger = logging.getLogger(__name__)

SAVE_EVERY_S: Final = 5.0


def calibrate(
    directory: Path, audio: Path, out: Path, options: CalibrationOptions
) -> CalibrationSet:
    """Make the calibration set of one part of a model, or continue one.

    Raises:
        AudioError: the folder has no usable speech.
        ModelError: the model has no such form.
        OutputError: the set cannot be written.
    """
    spec = ModelSpec.load(directory)
    form = spec.hailo_form(options.part)
    size = size_of(spec.dims.d_model, multilingual=spec.is_multilingual)
    n_target = options.count or default_windows(options.part, size)
    sources = find_sources(audio, options.seed)
    maker = _SetMaker(
        spec,
        form,
        options,
        sources,
        out=out,
        n_target=n_target,
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        return maker.make(directory)
    except OSError as error:
        n_bytes = sum(bytes_of_rows(shape, n_target) for shape in form.chip_inputs)
        if form.part == "decoder":
            n_bytes *= 2  # the rows, then the archive that joins them
        raise OutputError(
            f"cannot write {display_path(out)} ({error.strerror or error}); give a writable place "
            f"with {math.ceil(n_bytes / 1e6):,} MB free and run it again to resume"
        ) from error


class _SetMaker:
    """One set in the making."""

    def __init__(
        self,
        spec: ModelSpec,
        form: HailoForm,
        options: CalibrationOptions,
        sources: Sources,
        *,
        out: Path,
        n_target: int,
    ) -> None:
        self._spec = spec
        self._form = form
        self._options = options
        self._sources = sources
        self._n_target = n_target
        stem = f"{net_name(spec, form)}_calibration"
        suffix = "npy" if form.part == "encoder" else "npz"
        self._path = out / f"{stem}.{suffix}"
        self._manifest_path = out / f"{stem}.json"
        settings = collect_settings(spec, form, options, sources, n_target)
        earlier = Manifest.load(self._manifest_path, settings)
        self._is_resumed = earlier is not None
        self._manifest = Manifest(settings) if earlier is None else earlier
        self._parts = {
            out / f"{stem}.{number}.partial": shape[1:]
            for number, shape in enumerate(form.chip_inputs, 1)
        }
        self._plan = WindowPlan.make(spec.dims, float(form.window_s))

    def make(self, directory: Path) -> CalibrationSet:
        """Draw what is missing of the set, and describe it."""
        if not self._is_finished():
            if not self._has_kept_rows():
                self._manifest = Manifest(self._manifest.settings)
            self._write_rows(directory)
            self._pack()
        manifest = self._manifest
        return CalibrationSet(
            path=self._path,
            manifest=self._manifest_path,
            n_windows=manifest.n_rows,
            n_wanted=self._n_target,
            n_files=len({entry["file"] for entry in manifest.used}),
            n_speakers=self._sources.n_speakers,
            skipped=manifest.skipped,
            resumed=self._is_resumed,
        )

    def _is_finished(self) -> bool:
        record = self._manifest.files.get(self._path.name)
        if record is None or not self._path.is_file():
            return False
        return self._path.stat().st_size == record.get("bytes")

    def _has_kept_rows(self) -> bool:
        """Return whether the files have all rows that the manifest counts."""
        n_rows = self._manifest.n_rows
        for path, shape in self._parts.items():
            if not path.is_file() or path.stat().st_size < bytes_of_rows(shape, n_rows):
                return False
        return True

    def _write_rows(self, directory: Path) -> None:
        row_maker = open_row_maker(
            directory, self._spec, self._form, self._plan, self._options.language
        )
        with row_maker as make_rows, ExitStack() as stack:
            files = [
                stack.enter_context(RowsFile(path, shape, self._manifest.n_rows))
                for path, shape in self._parts.items()
            ]
            self._draw_all(make_rows, files)

    def _draw_all(self, make_rows: RowMaker, files: list[RowsFile]) -> None:
        """Take turns through the files until there are enough rows, or a turn adds none."""
        manifest = self._manifest
        saved_s = monotonic()
        while manifest.n_rows < self._n_target:
            is_whole_turn = manifest.position == 0
            n_before = manifest.n_rows
            for name in self._sources.files[manifest.position :]:
                self._draw_file(name, make_rows, files)
                manifest.position += 1
                if monotonic() - saved_s > SAVE_EVERY_S:
                    self._save(files)
                    saved_s = monotonic()
                if manifest.n_rows >= self._n_target:
                    break
            else:
                manifest.turn += 1
                manifest.position = 0
                if is_whole_turn and manifest.n_rows == n_before:
                    break
        if manifest.n_rows == 0:
            first_problem = next(iter(manifest.skipped.values()), "")
            raise no_speech_error(self._sources, first_problem)
        for file in files:
            file.finish(manifest.n_rows)
        self._save(files)

    def _draw_file(self, name: str, make_rows: RowMaker, files: list[RowsFile]) -> None:
        """Add the rows of one file's turn."""
        manifest = self._manifest
        if name in manifest.skipped:
            return
        path = self._sources.folder / name
        # One turn is enough if all files are long.
        quota = math.ceil(self._n_target / len(self._sources.files))
        turn = (manifest.turn, quota)
        windows: list[int] = []
        try:
            for index, audio in draw(path, name, self._plan, self._options.seed, turn):
                for file, row in zip(files, make_rows(audio), strict=True):
                    file.append(row)
                windows.append(index)
                manifest.n_rows += 1
                if manifest.n_rows >= self._n_target:
                    break
        except AudioError as error:
            logger.warning("%s", error)
            manifest.skipped[name] = str(error)
        if windows:
            manifest.used.append(
                {"file": name, "sha256": sha256(path), "windows": windows}
            )

    def _save(self, files: list[RowsFile]) -> None:
        """Write the manifest after the rows that it counts."""
        for file in files:
            file.sync()
        self._manifest.save(self._manifest_path)

    def _pack(self) -> None:
        """Move the rows to their final file: rename it, or join several in one `.npz`."""
        parts = list(self._parts)
        if len(parts) == 1:
            os.replace(parts[0], self._path)
        else:
            network = net_name(self._spec, self._form)
            with (
                atomic_file(self._path) as scratch,
                zipfile.ZipFile(scratch, "w", zipfile.ZIP_STORED) as archive,
            ):
                for number, path in enumerate(parts, 1):
                    add_file(archive, f"{network}/input_layer{number}.npy", path)
        record = {"bytes": self._path.stat().st_size, "sha256": sha256(self._path)}
        self._manifest.files = {self._path.name: record}
        self._manifest.save(self._manifest_path)
        for path in self._parts:
            path.unlink(missing_ok=True)


def collect_settings(
    spec: ModelSpec,
    form: HailoForm,
    options: CalibrationOptions,
    sources: Sources,
    n_target: int,
) -> dict[str, Any]:
    """Return everything that the rows depend on."""
    settings: dict[str, Any] = {
        "part": form.part,
        "chip_inputs": [list(shape) for shape in form.chip_inputs],
        "window_s": form.window_s,
        "count": n_target,
        "seed": options.seed,
        "listing_sha256": sources.listing_sha256,
    }
    if form.part == "decoder":
        settings["language"] = options.language
        settings["model"] = {
            name: record.sha256 for name, record in sorted(spec.files.items())
        }
    return settings
