"""A HEF as data for `whisper-hailo inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whisper_hailo.backends.hef.contract import RUNS_ON, DecoderShape, EncoderShape, recognise
from whisper_hailo.backends.hef.read import HefFile, HefGroup, read_hef
from whisper_hailo.backends.hef.streams import HefStream
from whisper_hailo.core.files import sha256
from whisper_hailo.core.types import FRAMES_PER_SECOND


def describe_hef(path: Path) -> dict[str, Any]:
    """Chip, networks, inputs, outputs, versions and hashes of a HEF.

    Raises:
        HefError: broken or no HEF.
    """
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
        "inputs": {stream.name: _stream(stream) for stream in group.inputs},
        "outputs": {stream.name: _stream(stream) for stream in group.outputs},
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


def _stream(stream: HefStream) -> dict[str, Any]:
    return {
        "shape": list(stream.shape),
        "order": stream.order,
        "type": stream.type,
        "scale": stream.scale,
        "zero_point": stream.zero_point,
    }
