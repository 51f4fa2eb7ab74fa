"""Model directories whose encoder and decoder compute as the chip would."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo_lab.accuracy.setups import locate_model
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.options import SCRIPT, EmulateOptions

WINDOWS: Final = 64
"""Windows of real speech that set the scales."""

PLANS: Final = ("script", "norms16")
"""Bits of the encoder's layers: as the model script has them, and with only adds and norms wide."""

CALIBRATION_SET: Final = "arctic_fraser"
"""Recordings that set the scales; they are not measured in the same table."""


def prepare_emulated(
    model: str, plan: str, out: Path, recordings: Sequence[SpeechRecording]
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
    for part, bits in (("encoder", plan), ("decoder", SCRIPT)):
        emulate_part(directory, EmulateOptions(part=part, plan=bits, audio=speech, count=WINDOWS))
    (directory / "emulated").touch()
    return directory
