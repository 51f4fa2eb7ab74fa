"""What is in a model directory, an ONNX file or a HEF, as data for `whisper-hailo inspect`."""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whisper_hailo.backends.hailo.hef_contract import (
    RUNS_ON,
    DecoderShape,
    EncoderShape,
    recognise,
)
from whisper_hailo.backends.hailo.hef_file import HefFile, HefGroup, is_hef, read_hef
from whisper_hailo.backends.onnx_file import load_message
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.files import sha256
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND


def describe_hef(path: Path) -> dict[str, Any]:
    """Chip, networks, inputs, outputs, versions and hashes of a HEF."""
    hef = read_hef(path)
    return {
        "kind": "HEF",
        "bytes": hef.bytes,
        "sha256": sha256(path),
        "checksum": f"{hef.checksum}, as the content has",
        "format_version": hef.version,
        "compiled_for": hef.arch,
        "runs_on": sorted(chip for chip, takes in RUNS_ON.items() if hef.arch in takes),
        "compiler_version": hef.compiler_version or "not stated",
        "networks": {group.name: _group(group, hef) for group in hef.groups},
    }


def _group(group: HefGroup, hef: HefFile) -> dict[str, Any]:
    return {
        **_role(group, hef.arch),
        "contexts": group.contexts,
        "inputs": {stream.name: list(stream.shape) for stream in group.inputs},
        "outputs": {stream.name: list(stream.shape) for stream in group.outputs},
    }


def _role(group: HefGroup, arch: str) -> dict[str, Any]:
    shape = recognise(group, arch)
    if isinstance(shape, EncoderShape):
        seconds = shape.n_frames / FRAMES_PER_SECOND
        return {"part": "encoder", "window_s": seconds, "d_model": shape.d_model}
    if isinstance(shape, DecoderShape):
        return {
            "part": "decoder",
            "positions": shape.n_positions,
            "length": shape.length,
            "d_model": shape.d_model,
            "contract": shape.contract,
        }
    return {"part": "no half of Whisper"}


def describe(path: Path) -> dict[str, Any]:
    """Describe a model directory, an ONNX file or a HEF.

    Raises:
        ModelError: none of them, or broken.
    """
    if os.path.isdir(path):
        return describe_model(path)
    if not os.path.exists(path):  # False also where we may not look
        raise ModelError(
            f"{display_path(path)} does not exist; give a model directory, an ONNX file or a HEF"
        )
    if not os.path.isfile(path):
        raise ModelError(
            f"{display_path(path)} is no plain file; give a model directory, an ONNX file or a HEF"
        )
    if path.suffix.lower() == ".hef" or is_hef(path):
        return describe_hef(path)
    return describe_onnx(path)


def describe_model(directory: Path) -> dict[str, Any]:
    """The specification of a model directory, and whether its files are what it says."""
    spec = ModelSpec.load(directory)
    files = {}
    for name, record in spec.files.items():  # in order of the names, as `model.json` has them
        files[name] = {**asdict(record), "state": _state(directory / name, record.sha256)}
    step_s = FRAMES_PER_POSITION / FRAMES_PER_SECOND
    return {
        "kind": "model directory",
        "name": spec.name,
        "source": asdict(spec.source),
        "dimensions": asdict(spec.dims),
        "windows_s": {"shortest": step_s, "longest": spec.dims.max_window_s, "step": step_s},
        "languages": len(spec.tokens.languages) or 1,
        "quantization": spec.quantization,
        "encoder_quantization": spec.encoder_quantization,
        "half": spec.half,
        "pairs_fit": spec.pairs_fit,
        "alignment_heads": [list(pair) for pair in spec.alignment_heads],
        "hailo": {form.file: asdict(form) for form in spec.hailo},
        "hefs": {hef.file: asdict(hef) for hef in spec.hefs},
        "files": files,
    }


def describe_onnx(path: Path) -> dict[str, Any]:
    """Inputs, outputs, operators and weight sizes of an ONNX graph.

    Raises:
        ModelError: the file is no ONNX graph.
    """
    model = load_message(path)
    graph = model.graph
    try:
        weights = _weight_bytes(graph.initializer)
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{display_path(path)} has a weight of a type that ONNX does not know ({error}); "
            "convert the model again"
        ) from error
    return {
        "kind": "ONNX graph",
        "bytes": path.stat().st_size,
        "sha256": sha256(path),
        "opsets": {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        "inputs": {value.name: _shape(value) for value in graph.input},
        "outputs": {value.name: _shape(value) for value in graph.output},
        "operators": dict(sorted(Counter(node.op_type for node in graph.node).items())),
        "weight_bytes": dict(sorted(weights.items())),
    }


def _state(path: Path, expected: str) -> str:
    if not path.is_file():
        return "missing"
    return "ok" if sha256(path) == expected else "changed"


def _shape(value: Any) -> list[int | str]:  # noqa: ANN401 - onnx.ValueInfoProto
    """Axes of a graph input or output: a number, or the name of a dynamic axis."""
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def _weight_bytes(tensors: Any) -> Counter[str]:  # noqa: ANN401 - onnx.TensorProto, repeated
    """Bytes of initialisers' elements by their type, wherever they are stored."""
    import onnx

    weights: Counter[str] = Counter()
    for tensor in tensors:
        width = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        name = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
        weights[name] += math.prod(tensor.dims) * width
    return weights
