"""What is in a model directory or a HEF, as data for `whisper-hailo inspect`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whisper_hailo.backends.hailo.hef_contract import RUNS_ON, DecoderShape, EncoderShape, recognise
from whisper_hailo.backends.hailo.hef_file import HefGroup, read_hef
from whisper_hailo.core.errors import HefError, display_path
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND


def describe(path: Path) -> dict[str, Any]:
    """Describe a model directory or a HEF."""
    if not path.exists() or path.suffix == ".onnx":
        what = "is an ONNX file" if path.exists() else "does not exist"
        raise HefError(f"{display_path(path)} {what}; give a model directory or a HEF")
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
        "networks": {group.name: _describe_group(group, hef.arch) for group in hef.groups},
    }


def _describe_group(group: HefGroup, arch: str) -> dict[str, Any]:
    shape = recognise(group, arch)
    role: dict[str, Any] = {"part": "no half of Whisper"}
    if isinstance(shape, EncoderShape):
        seconds = shape.n_frames / FRAMES_PER_SECOND
        role = {"part": "encoder", "window_s": seconds, "d_model": shape.d_model}
    if isinstance(shape, DecoderShape):
        role = {
            "part": "decoder",
            "positions": shape.n_positions,
            "length": shape.length,
            "d_model": shape.d_model,
            "contract": f"the {shape.positions} adds the position rows",
        }
    return {
        **role,
        "contexts": group.contexts,
        "inputs": {name: list(shape) for name, shape in group.inputs.items()},
        "outputs": {name: list(shape) for name, shape in group.outputs.items()},
    }


def describe_model(directory: Path) -> dict[str, Any]:
    """Return the specification of a model directory, and whether its files are what it says."""
    spec = ModelSpec.load(directory)
    files = {}
    for name, record in spec.files.items():  # in order of the names, as `model.json` has them
        path = directory / name
        state = "changed" if path.is_file() else "missing"
        if state == "changed" and sha256(path) == record.sha256:
            state = "ok"
        files[name] = {**asdict(record), "state": state}
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
        "pairs_fit": spec.int8_safe_without_vnni,
        "alignment_heads": [list(pair) for pair in spec.alignment_heads],
        "hailo": {form.file: asdict(form) for form in spec.hailo},
        "hefs": {hef.file: asdict(hef) for hef in spec.hefs},
        "files": files,
    }
