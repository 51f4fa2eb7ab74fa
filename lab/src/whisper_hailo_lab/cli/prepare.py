"""`whisper-hailo prepare`: a sample of LibriSpeech, or of any dataset, as a flat folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.languages import language_code


def prepare(
    source: Annotated[Path, Argument("LibriSpeech folder, other folder, or manifest.")],
    out: Annotated[Path, Argument("Folder to make.")],
    count: Annotated[int, Flag("Files to draw; 0 takes all.", metavar="N")] = 24,
    seed: Annotated[int, Flag("Seed for drawing files.", metavar="S")] = 0,
    language: Annotated[
        str,
        Flag(
            "Language to record with the files.",
            short="-l",
            metavar="L",
            parse=language_code,
        ),
    ] = "en",
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Draw a random sample of recordings with their texts, as `<id>.flac` and `<id>.txt`."""
    from whisper_hailo_lab.data.datasets import prepare_dataset

    result = prepare_dataset(
        source, out, count=count or None, seed=seed, language=language
    )
    if as_json:
        emit_json(asdict(result) | {"folder": str(result.folder)})
        return
    text = f"{result.folder}: {len(result.ids)} of {result.n_available} recordings, seed {seed}"
    if result.n_problems:
        text += f"; {result.n_problems} files of {source} could not be used"
    emit(text + "\n")
