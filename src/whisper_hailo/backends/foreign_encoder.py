"""Encoder graphs of other programs, or for other machines: the input layout is found by looking.

Known forms: Optimum's `input_features (batch, n_mels, n_frames)`, and the study's and our own form
for the Hailo compiler, `(1, n_mels, 1, n_frames)`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whisper_hailo.backends.checks import check_mel
from whisper_hailo.backends.onnx_file import Axis, Port, Signature, read_signature
from whisper_hailo.backends.session import OneGraph, warn_of_slow_products
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
        self._input, port = _only_input(signature)
        self._axes, self.n_frames = _layout(signature, port, spec)
        self._dtype = port.dtype
        self._batched = not isinstance(port.shape[0], int)
        self._output = _features_output(signature, spec, self.n_frames)
        seconds = f"{self.n_frames / FRAMES_PER_SECOND:g}s"
        super().__init__(path, threads, name or f"onnx-{seconds}-{precision(path, port.dtype)}")
        warn_of_slow_products(signature)

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode log-mel windows; see `core.protocols.Encoder`."""
        check_mel(mel, self.spec, self.n_frames)
        parts = [mel] if self._batched else np.split(mel, mel.shape[0])
        return np.concatenate([self._run(part) for part in parts])

    def _run(self, mel: FloatArray) -> FloatArray:
        """Run the graph on `(batch, n_mels, n_frames)`, in its own order of axes."""
        laid_out = mel.transpose(0, 2, 1) if self._axes in {"bfm", "b1fm"} else mel
        if "1" in self._axes:
            laid_out = np.expand_dims(laid_out, self._axes.index("1"))
        laid_out = np.ascontiguousarray(laid_out, dtype=self._dtype)
        features = self._compute(self._output, {self._input: laid_out})
        flat: FloatArray = features.reshape(mel.shape[0], -1, self.spec.dims.d_model)
        return flat.astype(np.float32, copy=False)


def precision(path: Path, dtype: str = "float32") -> str:
    """`int8`, `fp16` or `fp32`, by what exporters write into file names and by the input's type."""
    words = path.stem.lower().replace("-", "_").split("_")
    if marks := [mark for mark in QUANTIZED_MARKS if mark in words]:
        return "int8" if marks[0] == "quantized" else marks[0]
    return "fp16" if dtype == "float16" or "fp16" in words else "fp32"


def _only_input(signature: Signature) -> tuple[str, Port]:
    floats = [(n, p) for n, p in signature.inputs.items() if p.dtype.startswith("float")]
    if len(signature.inputs) != 1 or len(floats) != 1:
        raise ModelError(
            f"{display_path(signature.path)} takes {signature.describe()}; an encoder has one "
            "input, a log-mel: is it a decoder?"
        )
    return floats[0]


def _layout(signature: Signature, port: Port, spec: ModelSpec) -> tuple[str, int]:
    """Return the axes of the mel as a word of b, m, f and 1, and the number of frames."""
    n_mels, shape = spec.dims.n_mels, port.shape
    for axes in ("bmf", "bm1f", "b1fm", "bfm"):
        if len(shape) != len(axes):
            continue
        sizes = dict(zip(axes, shape, strict=True))
        if _can_be(sizes["m"], n_mels) and _can_be(sizes.get("1", 1), 1):
            return axes, _frames(signature, sizes["f"], spec)
    raise ModelError(
        f"{display_path(signature.path)} takes {signature.describe()}, {spec.name} has {n_mels} "
        f"mel bins: expected (batch, {n_mels}, n_frames) or (1, {n_mels}, 1, n_frames); "
        "encoder and --model must be of one model"
    )


def _can_be(axis: Axis, size: int) -> bool:
    return axis == size or isinstance(axis, str)


def _frames(signature: Signature, axis: Axis, spec: ModelSpec) -> int:
    """The window; exports that leave it open were traced with the whole position table."""
    n_frames = spec.dims.max_frames if isinstance(axis, str) else axis
    if not 0 < n_frames <= spec.dims.max_frames or n_frames % FRAMES_PER_POSITION:
        raise ModelError(
            f"{display_path(signature.path)} takes {n_frames} frames, {spec.name} takes an even "
            f"number up to {spec.dims.max_frames}; encoder and --model must be of one model"
        )
    return n_frames


def _features_output(signature: Signature, spec: ModelSpec, n_frames: int) -> str:
    """Name of the output that is the audio features: `(batch, positions, d_model)`, or with a 1."""
    d_model, n_positions = spec.dims.d_model, n_frames // FRAMES_PER_POSITION
    for name, port in signature.outputs.items():
        if len(port.shape) not in {3, 4} or not _can_be(port.shape[-1], d_model):
            continue
        if _can_be(port.shape[-2], n_positions):
            return name
    got = ", ".join(f"{name} {port.shape}" for name, port in signature.outputs.items())
    raise ModelError(
        f"{display_path(signature.path)} gives {got}, {spec.name} has a width of {d_model}: "
        f"expected (batch, {n_positions}, {d_model}); encoder and --model must be of one model"
    )
