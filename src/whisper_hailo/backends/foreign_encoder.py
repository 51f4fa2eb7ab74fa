"""Encoder graphs of other programs, or for other machines.

They take Optimum's `input_features (batch, n_mels, n_frames)`, or the form for the Hailo compiler,
`(1, n_mels, 1, n_frames)`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whisper_hailo.backends.checks import check_mel
from whisper_hailo.backends.onnx_file import Axis, Port, Signature, read_signature
from whisper_hailo.backends.session import OneGraph
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND, FloatArray

OPTIMUM_ENCODERS = ("encoder_model", "encoder_model_quantized", "encoder_model_int8")
QUANTIZED_MARKS = ("quantized", "int8", "uint8", "q4", "bnb4")
"""What exporters write into the names of quantised files."""


def encoder_file(path: Path) -> Path:
    """Return the encoder graph of a path: itself, or that of a directory of Optimum's layout."""
    if not path.is_dir():
        return path
    for folder in (path, path / "onnx"):
        for stem in OPTIMUM_ENCODERS:
            if (folder / f"{stem}.onnx").is_file():
                return folder / f"{stem}.onnx"
    raise ModelError(
        f"{display_path(path)} holds no encoder_model.onnx; give the encoder's file with "
        "--encoder, or a checkpoint with --model"
    )


class ForeignEncoder(OneGraph):
    """An encoder graph with one input and the features among its outputs.

    Its name is `onnx-30s-fp32`, `onnx-10s-int8` and so on, unless there is another one.
    """

    def __init__(self, path: Path, spec: ModelSpec, threads: int = 0, name: str = "") -> None:
        signature = read_signature(path)
        self.spec = spec
        self._input, self._port = _only_input(signature)
        self.n_frames = _window(signature, self._port, spec)
        self._output = _features_output(signature, spec, self.n_frames)
        weights = precision(path, self._port.dtype)
        super().__init__(
            path, threads, name or f"onnx-{self.n_frames / FRAMES_PER_SECOND:g}s-{weights}"
        )

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode log-mel windows; see `core.protocols.Encoder`."""
        check_mel(mel, self.spec, self.n_frames)
        batched = not isinstance(self._port.shape[0], int)
        parts = [mel] if batched else np.split(mel, mel.shape[0])
        return np.concatenate([self._run(part) for part in parts])

    def _run(self, mel: FloatArray) -> FloatArray:
        """Run the graph on `(batch, n_mels, n_frames)`."""
        laid_out = mel if len(self._port.shape) == 3 else mel[:, :, np.newaxis]
        laid_out = np.ascontiguousarray(laid_out, dtype=self._port.dtype)
        features = self.compute(self._output, {self._input: laid_out})
        flat: FloatArray = features.reshape(mel.shape[0], -1, self.spec.dims.d_model)
        return flat.astype(np.float32, copy=False)


def precision(path: Path, dtype: str = "float32") -> str:
    """`int8`, `fp16` or `fp32`, by what exporters write into file names and by the input's type."""
    words = path.stem.lower().replace("-", "_").split("_")
    if marks := [mark for mark in QUANTIZED_MARKS if mark in words]:
        return "int8" if marks[0] == "quantized" else marks[0]
    return "fp16" if dtype == "float16" or "fp16" in words else "fp32"


def _only_input(signature: Signature) -> tuple[str, Port]:
    ((name, port), *others) = signature.inputs.items()
    if others or not port.dtype.startswith("float"):
        raise ModelError(
            f"{display_path(signature.path)} takes {signature.describe()}; an encoder has one "
            "input, a log-mel: is it a decoder?"
        )
    return name, port


def _window(signature: Signature, port: Port, spec: ModelSpec) -> int:
    """Return the window in frames, the last axis of the log-mel."""
    n_mels, most = spec.dims.n_mels, spec.dims.max_frames
    expected = {3: (n_mels,), 4: (n_mels, 1)}.get(len(port.shape))
    if expected is None or not all(map(_can_be, port.shape[1:-1], expected)):
        raise ModelError(
            f"{display_path(signature.path)} takes {signature.describe()}, {spec.name} has "
            f"{n_mels} mel bins: expected (batch, {n_mels}, n_frames) or (1, {n_mels}, 1, "
            "n_frames); encoder and --model must be of one model"
        )
    # Exports that leave it open were traced with the whole position table.
    n_frames = most if isinstance(port.shape[-1], str) else port.shape[-1]
    if not 0 < n_frames <= most or n_frames % FRAMES_PER_POSITION:
        raise ModelError(
            f"{display_path(signature.path)} takes {n_frames} frames, {spec.name} takes an even "
            f"number up to {most}; encoder and --model must be of one model"
        )
    return n_frames


def _can_be(axis: Axis, size: int) -> bool:
    return axis == size or isinstance(axis, str)


def _features_output(signature: Signature, spec: ModelSpec, n_frames: int) -> str:
    """Name of the output that is the audio features: `(batch, positions, d_model)`, or with a 1."""
    wanted = (n_frames // FRAMES_PER_POSITION, spec.dims.d_model)
    for name, port in signature.outputs.items():
        if len(port.shape) in {3, 4} and all(map(_can_be, port.shape[-2:], wanted)):
            return name
    got = ", ".join(f"{name} {port.shape}" for name, port in signature.outputs.items())
    raise ModelError(
        f"{display_path(signature.path)} gives {got}, {spec.name} has a width of {wanted[1]}: "
        f"expected (batch, {wanted[0]}, {wanted[1]}); encoder and --model must be of one model"
    )
