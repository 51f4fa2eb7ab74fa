"""Model directories whose encoder and decoder compute as the chip would."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_lab.accuracy.setups import locate_model
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.options import PLANS as PRESETS
from whisper_hailo_tools.options import SCRIPT, EmulateOptions

WINDOWS: Final = 64
"""Windows of real speech that set the scales."""

EXACT: Final = "float32"
"""The Hailo form of the encoder without rounding."""

KINDS: Final = {
    "norms8": "layer_normalization",
    "adds8": "ew_add",
    "linear8": "conv",
    "attention8": "matmul",
    "softmax8": "softmax",
}
"""One kind of layers with 8 bits, all others with 16."""

PLANS: Final = (SCRIPT, "norms16", "adds16", "all8", "all16", *KINDS)
"""Bits of the encoder's layers: the model script's, presets, and each kind of layers alone."""

CALIBRATION_SET: Final = "arctic_fraser"
"""Recordings that set the scales; they are not measured in the same table."""


def prepare_emulated(
    model: str,
    plan: str,
    out: Path,
    recordings: Sequence[SpeechRecording],
) -> Path:
    """Convert a checkpoint with an 8-bit decoder and emulated Hailo forms.

    Args:
        model: name or folder of the checkpoint.
        plan: of `PLANS`, for the encoder; the decoder follows its model script.
        out: folder for the model directory, named after model and plan.
        recordings: speech of `CALIBRATION_SET`, which sets the scales.

    Raises:
        WhisperHailoError: the checkpoint cannot be had, or no speech can be used.
    """
    directory = out / f"{Path(model).name}-emulated-{plan}"
    if (directory / "emulated").is_file():
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    options = ConvertOptions("int8", "none", hailo=HailoOptions())
    shutil.copytree(resolve_model(locate_model(model), options), directory)
    speech = out / "calibration"
    speech.mkdir(parents=True, exist_ok=True)
    for recording in recordings:
        if recording.set == CALIBRATION_SET:
            (path,) = recording.paths
            shutil.copy(path, speech / path.name)
    common = EmulateOptions(part="decoder", audio=speech, count=WINDOWS)
    emulate_part(directory, common)
    emulate_part(
        directory, replace(common, part="encoder", **_encoder_options(plan, out))
    )
    (directory / "emulated").touch()
    return directory


def _encoder_options(plan: str, out: Path) -> dict[str, Any]:
    """Return the options of a plan; one that is no preset gets a model script."""
    if plan in PRESETS:
        return {"plan": plan}
    lines = ["quantization_param({*}, precision_mode=a16_w16)"]
    if plan in KINDS:
        lines.append(f"quantization_param({{{KINDS[plan]}*}}, precision_mode=a8_w8)")
    script = out / f"{plan}.alls"
    write_file(script, "".join(f"{line}\n" for line in lines))
    return {"script": script}


def locate_exact_encoder(directory: Path) -> Path:
    """Return the graph of the encoder's Hailo form."""
    return directory / ModelSpec.load(directory).hailo_form("encoder").file


def read_snr_db(directory: Path) -> float:
    """Return the signal-to-noise ratio of an emulated encoder's audio features, in decibels."""
    spec = ModelSpec.load(directory)
    record = (directory / spec.hailo_form("encoder").emulated_file).with_suffix(".json")
    (output,) = json.loads(record.read_text(encoding="utf-8"))["outputs"]
    return float(output["snr_db"])
