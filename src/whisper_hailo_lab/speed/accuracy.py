"""Word error rate and agreement with float32 of every configuration, on the frozen clips.

It costs minutes and changes with weights and engine only, so every configuration is kept in a file
of its own, clip by clip: an interrupted one goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo_lab.data.datasets import Dataset, read_dataset
from whisper_hailo_lab.formats.prepare import checkpoint_hashes
from whisper_hailo_lab.harness.evaluate import evaluate
from whisper_hailo_lab.harness.processes import Progress
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.runs.case import Case
from whisper_hailo_lab.runs.records import CaseRecord, ComparisonRecord, FileResult
from whisper_hailo_lab.runs.run_file import read_run
from whisper_hailo_lab.runs.summary import finite, summarise_case
from whisper_hailo_lab.score import count_units
from whisper_hailo_lab.speed.keys import cases_key
from whisper_hailo_lab.speed.plan import FLOAT

NAME: Final = "speed-accuracy"
SETS: Final = ("seen", "noisy", "unseen")
PER_SET: Final = 130
"""Clips of each set: together over 5,000 words of reference."""


def frozen(folder: Path, per_set: int) -> Dataset:
    """The first clips of every English set."""
    parts = [read_dataset(folder / name).samples[:per_set] for name in SETS]
    samples = tuple(
        replace(sample, id=f"{name}/{sample.id}")
        for name, part in zip(SETS, parts, strict=True)
        for sample in part
    )
    return Dataset("micro", folder, samples)


def transcribe(
    case: Case, dataset: Dataset, out: Path, progress: Progress | None
) -> list[FileResult]:
    """What one configuration makes of every clip; what it did before it does not do again.

    Args:
        case: the configuration.
        dataset: the clips.
        out: folder of the files.
        progress: told about each step; `None` takes what is kept and measures nothing.
    """
    key = cases_key([case], checkpoint_hashes(case.model), dataset.sha256)
    path = out / f"accuracy-{key}.jsonl"
    known = _known(path)
    missing = tuple(s for s in dataset.samples if s.id not in known)
    if missing and progress is not None:
        evaluate([case], replace(dataset, samples=missing), path, progress, note=case.name)
        known = _known(path)
    return [known[sample.id] for sample in dataset.samples if sample.id in known]


def compare_accuracy(
    cases: Sequence[Case], heard: dict[str, list[FileResult]], tokenizer: Tokenizer
) -> ComparisonRecord:
    """One row per configuration, with counts from which every rate follows.

    Args:
        cases: the configurations; one is called `FLOAT`.
        heard: by the configurations' names.
        tokenizer: of the model.
    """
    by_clip = {record.id: record.hypothesis for record in heard[FLOAT]}
    digest = hashlib.sha256("\n".join(sorted(by_clip)).encode()).hexdigest()[:12]
    rows = tuple(_row(case, heard[case.name], by_clip, tokenizer) for case in cases)
    return ComparisonRecord(NAME, {"clips": len(by_clip), "ids": digest, "reference": FLOAT}, rows)


def _row(
    case: Case, files: list[FileResult], base: dict[str, str], tokenizer: Tokenizer
) -> dict[str, Any]:
    record = CaseRecord(case.name, case.system, case.row, case.model, case.threads)
    summary = summarise_case(record, files)
    words = summary.normalised.words
    low, high = summary.normalised.wer_interval()
    pairs = [(base[f.id], f.hypothesis) for f in files if not f.error and f.id in base]
    tokens = agreement([(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs])
    return {
        "case": case.name,
        "settings": case.settings,
        "weights": checkpoint_hashes(case.model),
        "failed": summary.n_failed,
        "wer": finite(words.rate),
        "interval": [finite(low), finite(high)],
        "words": words.reference_count,
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "tokens_equal": tokens.hits,
        "tokens_all": tokens.hits + tokens.errors,
        "texts_equal": sum(a == b for a, b in pairs),
        "texts": len(pairs),
    }


def agreement(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Score:
    """Token ids that are equal in both of two texts, in order; the others are errors."""
    counted = (count_units([str(i) for i in a], [str(i) for i in b]) for a, b in pairs)
    return sum(counted, Score())


def _known(path: Path) -> dict[str, FileResult]:
    """Clips that were heard without an error."""
    files = read_run(path).files if path.is_file() else ()
    return {record.id: record for record in files if not record.error}
