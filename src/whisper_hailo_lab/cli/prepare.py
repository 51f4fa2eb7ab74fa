"""`whisper-hailo prepare`: a sample of LibriSpeech, or of any dataset, as a flat folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.core.languages import language_code


def prepare(
    source: Annotated[
        Path,
        typer.Argument(help="LibriSpeech folder, other folder, or manifest.", readable=False),
    ],
    out: Annotated[Path, typer.Argument(help="Folder to make.", readable=False)],
    count: Annotated[int, typer.Option(metavar="N", help="Files to draw; 0 takes all.")] = 24,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the drawing.")] = 0,
    language: Annotated[
        str,
        typer.Option(
            "--language", "-l", parser=language_code, metavar="L", help="Noted beside the files."
        ),
    ] = "en",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Draw recordings with their texts by a seed: `<id>.flac` beside `<id>.txt`."""
    from whisper_hailo_lab.data.datasets import prepare as make

    result = make(source, out, count=count or None, seed=seed, language=language)
    if as_json:
        emit_json(asdict(result) | {"folder": str(result.folder)})
        return
    text = f"{result.folder}: {len(result.ids)} of {result.n_available} recordings, seed {seed}"
    if result.n_problems:
        text += f"; {result.n_problems} files of {source} could not be used"
    emit(text + "\n")
