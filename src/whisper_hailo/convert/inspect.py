"""Descriptions of model directories and HEFs, as data for `whisper-hailo inspect`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whisper_hailo.backends.hailo.hef_contract import (
    RUNS_ON,
    DecoderShape,
    EncoderShape,
    Shape,
    recognise,
)
from whisper_hailo.backends.hailo.hef_file import HefGroup, read_hef
from whisper_hailo.core.errors import HefError, display_path
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND


def describe(path: Path) -> dict[str, Any]:
    """Describe a model directory or a HEF.

    Raises:
        HefError: it is neither.
        ModelError: the directory has no readable `model.json`.
    """
    # Read as a HEF, both would be called broken.
    if not path.exists():
        raise HefError(
            f"{display_path(path)} does not exist; give a model directory or a HEF"
        )
    if path.suffix == ".onnx":
        raise HefError(
            f"{display_path(path)} is an ONNX file; give a model directory or a HEF"
        )
    return describe_model(path) if os.path.isdir(path) else describe_hef(path)


def describe_hef(path: Path) -> dict[str, Any]:
    """Return chip, networks, inputs, outputs, versions and hashes of a HEF."""
    hef = read_hef(path)
    return {
        "kind": "HEF",
        "bytes": path.stat().st_size,
        "sha256": sha256(path),
        "compiled_for": hef.arch,
        "runs_on": sorted(chip for chip, takes in RUNS_ON.items() if hef.arch in takes),
        "compiler_version": hef.compiler_version or "not stated",
        "networks": {
            group.name: _describe_group(group, hef.arch) for group in hef.groups
        },
    }


def _describe_group(group: HefGroup, arch: str) -> dict[str, Any]:
    return {
        **_describe_part(recognise(group, arch)),
        "contexts": group.contexts,
        "inputs": {name: list(shape) for name, shape in group.inputs.items()},
        "outputs": {name: list(shape) for name, shape in group.outputs.items()},
    }


def _describe_part(shape: Shape | None) -> dict[str, Any]:
    """Return the half of Whisper that a network is, and its sizes."""
    if isinstance(shape, EncoderShape):
        window_s = shape.n_frames / FRAMES_PER_SECOND
        return {"part": "encoder", "window_s": window_s, "d_model": shape.d_model}
    if isinstance(shape, DecoderShape):
        return {
            "part": "decoder",
            "positions": shape.n_positions,
            "length": shape.length,
            "d_model": shape.d_model,
            "contract": f"the {shape.positions} adds the position rows",
        }
    return {"part": "no half of Whisper"}


def describe_model(directory: Path) -> dict[str, Any]:
    """Return the specification of a model directory, and the state of its files."""
    spec = ModelSpec.load(directory)
    files = {}
    for name, record in spec.files.items():  # in order of the names, as in `model.json`
        path = directory / name
        if not path.is_file():
            state = "missing"
        elif sha256(path) != record.sha256:
            state = "changed"
        else:
            state = "ok"
        files[name] = {**asdict(record), "state": state}
    step_s = FRAMES_PER_POSITION / FRAMES_PER_SECOND
    return {
        "kind": "model directory",
        "name": spec.name,
        "source": asdict(spec.source),
        "dimensions": asdict(spec.dims),
        "windows_s": {
            "shortest": step_s,
            "longest": spec.dims.max_window_s,
            "step": step_s,
        },
        "languages": len(spec.tokens.languages) or 1,
        "quantization": spec.quantization,
        "encoder_quantization": spec.encoder_quantization,
        "half": spec.half,
        "pairs_fit": spec.int8_safe_without_vnni,
        "alignment_heads": [list(pair) for pair in spec.alignment_heads],
        "hailo": {form.file: asdict(form) for form in spec.hailo},
        "hefs": {hef.file: asdict(hef) for hef in spec.hefs},
        "files": files,
    }
