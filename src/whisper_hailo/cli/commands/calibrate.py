"""`whisper-hailo calibrate`: real speech in, a calibration set for the Hailo compiler out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.hailo_tools.calibrate.options import CalibrationOptions, CalibrationSet


def calibrate(
    model_dir: Annotated[
        Path, typer.Argument(help="Model directory made with convert --hailo.", readable=False)
    ],
    audio: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of recordings of speech.", readable=False)
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to write the set to.", readable=False)
    ],
    options: CalibrationOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the calibration set that the Hailo compiler quantises by; an interrupted one goes on."""
    from whisper_hailo.hailo_tools.calibrate.make import calibrate as make

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
