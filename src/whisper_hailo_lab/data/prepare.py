"""A folder in the study's form, `<id>.flac` beside `<id>.txt`, drawn from a larger dataset."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo.core.files import write_file
from whisper_hailo.core.names import shown
from whisper_hailo_lab.data.datasets import Dataset, Sample, read_dataset

STUDY_COUNT: Final = 24
"""LibriSpeech samples of the study; which ones they were is not known."""

RECEIPT: Final = "prepared.json"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was written.

    Attributes:
        folder: the new folder.
        ids: utterances drawn, in order.
        n_available: utterances there were to draw from.
        n_problems: files of the source that could not be used.
    """

    folder: Path
    ids: tuple[str, ...]
    n_available: int
    n_problems: int


def prepare(
    source: Path, out: Path, *, count: int | None = STUDY_COUNT, seed: int = 0, language: str = "en"
) -> Prepared:
    """Draw samples by a seed and write them as a flat folder.

    Args:
        source: anything that `read_dataset` reads, such as LibriSpeech's `dev-clean`.
        out: folder to make; it must not exist, or be empty.
        count: samples to draw; `None` takes all.
        seed: same seed and source, same samples.
        language: recorded in `prepared.json`.

    Raises:
        OptionError: `out` holds something, or two ids would get the same file name.
        OutputError: `out` cannot be written.
    """
    dataset = read_dataset(source, language)
    drawn = dataset.sampled(count, seed)
    names = [_file_name(sample) for sample in drawn.samples]
    if len(set(names)) < len(names):
        raise OptionError(f"{source} has ids that differ only in '/'; rename its files")
    try:
        if out.exists() and any(out.iterdir()):
            raise OptionError(f"{shown(out)} is not empty; give a new folder")
        out.mkdir(parents=True, exist_ok=True)
        for name, sample in zip(names, drawn.samples, strict=True):
            shutil.copyfile(sample.audio, out / f"{name}{sample.audio.suffix.lower()}")
            write_file(out / f"{name}.txt", sample.reference + "\n")
    except OSError as error:
        raise OutputError(
            f"cannot write {shown(out)} ({error.strerror}); free some space or give another folder"
        ) from error
    write_file(out / RECEIPT, _receipt(dataset, drawn, seed, language))
    return Prepared(
        folder=out,
        ids=tuple(sample.id for sample in drawn.samples),
        n_available=len(dataset.samples),
        n_problems=len(dataset.problems),
    )


def _receipt(dataset: Dataset, drawn: Dataset, seed: int, language: str) -> str:
    facts = {
        "source": dataset.name,
        "source_sha256": dataset.sha256,
        "available": len(dataset.samples),
        "seed": seed,
        "language": language,
        "ids": [sample.id for sample in drawn.samples],
    }
    return json.dumps(facts, indent=2) + "\n"


def _file_name(sample: Sample) -> str:
    return sample.id.replace("/", "-")
