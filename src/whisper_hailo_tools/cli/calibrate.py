"""`whisper-hailo calibrate`: real speech in, a calibration set for the Hailo compiler out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.flags import Flag
from whisper_hailo_tools.options import CalibrationOptions, CalibrationSet


def calibrate(
    model_dir: Annotated[Path, Argument("Model directory made with convert --hailo.")],
    audio: Annotated[Path, Flag("Folder of recordings of speech.", metavar="DIR")],
    out: Annotated[Path, Flag("Folder to write the set to.", metavar="DIR")],
    options: CalibrationOptions,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Make the calibration set that the Hailo compiler quantises by; an interrupted one goes on."""
    from whisper_hailo_tools.calibrate.make import calibrate as make

    result = make(model_dir, audio, out, options)
    if as_json:
        facts = asdict(result) | {"path": str(result.path), "manifest": str(result.manifest)}
        emit_json(facts)
    else:
        emit(_describe(result) + "\n")


def _describe(result: CalibrationSet) -> str:
    text = (
        f"{result.path}: {result.n_windows} windows of {result.n_files} recordings, "
        f"{result.n_speakers} speaker{'s' if result.n_speakers != 1 else ''}"
    )
    if result.n_windows < result.n_wanted:
        text += f"; {result.n_wanted} were wanted, give more speech for a better set"
    if result.skipped:
        text += f"; {len(result.skipped)} recordings could not be used"
    return text
