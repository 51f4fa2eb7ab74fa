"""The emulated chip: the Hailo form with its fixed sizes, its layout and its 8 and 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whisper_hailo.backends.checks import check_frames, check_mel
from whisper_hailo.backends.fixed import OnnxFixedRunner
from whisper_hailo.backends.model_files import has_content
from whisper_hailo.backends.session import OneGraph
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.files import resolve_within
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object
from whisper_hailo.core.types import FRAMES_PER_SECOND, FloatArray


class EmulatedEncoder(OneGraph):
    """An encoder that computes as the chip will: one fixed window, NHWC at its boundary.

    The graph is what `whisper-hailo emulate` wrote. Constructing reads its record, `open` the
    graph.

    Args:
        path: an emulated graph of this model elsewhere; `None` is the model directory's own.
    """

    def __init__(
        self, directory: Path, spec: ModelSpec, path: Path | None = None, threads: int = 0
    ) -> None:
        self.spec = spec
        self._form = spec.hailo_form("encoder")
        path = path or resolve_within(directory, self._form.emulated_file)
        self._plan = emulated_plan(path, spec, self._form)
        super().__init__(path, threads)

    @property
    def name(self) -> str:
        """`emulated-` and the plan, such as `emulated-adds16`."""
        return f"emulated-{self._plan}"

    @property
    def n_frames(self) -> int:
        return self._form.window_s * FRAMES_PER_SECOND

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode windows, one after the other as the chip does; see `core.protocols.Encoder`."""
        check_mel(mel, self.spec)
        check_frames(mel.shape[2], self.n_frames)
        return np.concatenate([self._run(to_chip(row)) for row in mel])

    def _run(self, frames: FloatArray) -> FloatArray:
        """One window from the chip's boundary on: `(1, 1, n_frames, n_mels)`."""
        (source,), (target,) = self._form.inputs, self._form.outputs
        image = np.ascontiguousarray(frames.transpose(0, 3, 1, 2))
        features: FloatArray = self._compute(target, {source: image})
        return features


class EmulatedRunner(OnnxFixedRunner):
    """A decoder without a cache that computes as the chip will.

    Args:
        path: an emulated graph of this model elsewhere; `None` is the model directory's own.
    """

    def __init__(
        self, directory: Path, spec: ModelSpec, path: Path | None = None, threads: int = 0
    ) -> None:
        form = spec.hailo_form("decoder")
        path = path or resolve_within(directory, form.emulated_file)
        self._plan = emulated_plan(path, spec, form)
        super().__init__(path, spec, threads)

    @property
    def name(self) -> str:
        """`emulated-` and the plan, such as `emulated-script`."""
        return f"emulated-{self._plan}"


def to_chip(mel: FloatArray) -> FloatArray:
    """`(n_mels, n_frames)` as the chip is handed it: NHWC `(1, 1, n_frames, n_mels)`."""
    return np.ascontiguousarray(mel.T, dtype=np.float32)[np.newaxis, np.newaxis]


def emulated_plan(path: Path, spec: ModelSpec, form: HailoForm) -> str:
    """Name of the plan of an emulated graph, from the record beside it."""
    advice = f"make it with: whisper-hailo emulate MODEL_DIR --audio DIR --part {form.part}"
    record_path = path.with_suffix(".json")
    if not path.is_file() or not record_path.is_file():
        raise ModelError(
            f"there is no emulated graph {display_path(path)} with its .json; {advice}"
        )
    try:
        record = decode(_Record, read_json_object(record_path))
    except MismatchError as error:
        raise ModelError(f"{display_path(record_path)}: {error}; {advice}") from error
    if record.graph_sha256 != spec.record(form.file).sha256:
        raise ModelError(
            f"{display_path(path)} was made from another graph than {display_path(form.file)}; "
            f"{advice}"
        )
    if not has_content(path, record.sha256):
        raise ModelError(
            f"{display_path(path)} is damaged: not what {display_path(record_path.name)} says; "
            f"{advice}"
        )
    return record.plan


@dataclass(frozen=True, slots=True)
class _Record:
    """What is read of the record beside an emulated graph."""

    plan: str
    sha256: str
    graph_sha256: str
