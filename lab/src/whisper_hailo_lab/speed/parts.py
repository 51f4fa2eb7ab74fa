"""Word error rate and agreement with float32 of every configuration, on the frozen clips.

It costs minutes and changes with weights and engine only, so every configuration is kept in a file
of its own, clip by clip: an interrupted one goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo_lab.data.datasets import Dataset, Sample, read_dataset
from whisper_hailo_lab.formats.prepare import checkpoint_hashes
from whisper_hailo_lab.harness.evaluate import Progress, evaluate
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.runs.records import (
    Case,
    CaseRecord,
    ComparisonRecord,
    FileResult,
    RunRecords,
)
from whisper_hailo_lab.runs.run_file import read_run
from whisper_hailo_lab.runs.summary import finite, summarise_case
from whisper_hailo_lab.score import count_units
from whisper_hailo_lab.speed.keys import cases_key
from whisper_hailo_lab.speed.plan import FLOAT, CaseGroup
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.process import output_of

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


WARM_UPS = 1


@dataclass(frozen=True, slots=True)
class Program:
    """One way to a first text.

    Attributes:
        label: name for tables.
        size: of the model, such as `tiny`.
        command: words that start it.
        model: directory of what it loads.
        expects_json: whether it tells its peak memory.
    """

    label: str
    size: str
    command: tuple[str, ...]
    model: Path
    expects_json: bool = True


_MAX_TOKENS: Final = "WHISPER_HAILO_TRANSCRIBE_MAX_NEW_TOKENS"
"""A key of settings files, for our command."""


def measure(programs: Sequence[Program], rounds: int) -> list[dict[str, Any]]:
    """Start every program so many times, in turns.

    Before, the models are taken out of memory, and read from where they lie by a start that does
    not count: files that were just written lie there in large pieces, and Linux counts the whole
    piece when one row of a mapped table is read, which came to 11 MiB.
    """
    wall_ms: dict[int, list[float]] = {i: [] for i in range(len(programs))}
    cpu_ms: dict[int, list[float]] = {i: [] for i in range(len(programs))}
    said: dict[int, dict[str, Any]] = {}
    for program in programs:
        _forget(program.model)
    for number in range(WARM_UPS + rounds):
        first = number % len(programs)
        for index in (*range(first, len(programs)), *range(first)):
            answer, taken_ms, busy_ms = _start(programs[index])
            said[index] = answer
            if number >= WARM_UPS:
                wall_ms[index].append(taken_ms)
                cpu_ms[index].append(busy_ms)
    return [
        {
            "label": program.label,
            "size": program.size,
            "ms": float(np.median(wall_ms[index])),
            "least_ms": min(wall_ms[index]),
            "cpu_ms": float(np.median(cpu_ms[index])),
            "times_ms": wall_ms[index],
            "peak_mib": said[index].get("peak_mib"),
            "text": said[index]["text"],
        }
        for index, program in enumerate(programs)
    ]


def _start(program: Program) -> tuple[dict[str, Any], float, float]:
    """What a program says, its milliseconds, and its processor milliseconds."""
    before = _children_s()
    begin = perf_counter()
    environment = process.compiling() | {"OMP_NUM_THREADS": "1", _MAX_TOKENS: "28"}
    text = output_of(program.command, environment, f"{program.label} failed").strip()
    taken_ms = (perf_counter() - begin) * 1000.0
    busy_ms = (_children_s() - before) * 1000.0
    return json.loads(text) if program.expects_json else {"text": text}, taken_ms, busy_ms


def _forget(directory: Path) -> None:
    """Let the system drop the files of a directory from its memory."""
    for file in filter(Path.is_file, directory.iterdir()):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def programs(size: str, model: str, rival: str, audio: Path) -> tuple[Program, ...]:
    """Ours from a model directory, ours on the command line, and faster-whisper.

    Args:
        size: of the model.
        model: a model directory, already converted.
        rival: the same weights for CTranslate2; empty where its environment is missing.
        audio: what is heard.
    """
    words = (str(audio), "1")
    ours, script = sys.executable, process.script("first_text_ours.py")
    found = [
        Program("ours", size, (ours, str(script), model, *words), Path(model)),
        Program(
            "ours, command line", size,
            (ours, "-m", "whisper_hailo", "transcribe", str(audio), "--model", model,
             "--language", "en", "--threads", "1",
             "--fallback", "0"),
            Path(model), expects_json=False,
        ),
    ]  # fmt: skip
    python = process.interpreter("faster-whisper")
    if rival and python:
        script = process.script("first_text_faster_whisper.py")
        command = (str(python), str(script), rival, *words)
        found.append(Program("faster-whisper", size, command, Path(rival)))
    return tuple(found)


TOGETHER: Final = 32
"""All cases of a group are alive at once: whoever is not there has no turn."""

LEAST_ROUNDS: Final = 3
NOISE_S: Final = 10.0


def noise(out: Path, rounds: int) -> Dataset:
    """The same 10 s of quiet noise, so many times: random weights hear nothing anyway."""
    import soundfile

    path = out / "noise.flac"
    if not path.is_file():
        drawn = np.random.default_rng(0).standard_normal(round(NOISE_S * SAMPLE_RATE_HZ))
        soundfile.write(path, 0.1 * drawn, SAMPLE_RATE_HZ)
    samples = tuple(Sample(f"round-{number:02}", path, "") for number in range(rounds))
    return Dataset("10 s of noise", out, samples)


class _TimeIsUpError(Exception):
    """Enough rounds are done, and no more are begun."""


def take_turns(
    group: CaseGroup,
    dataset: Dataset,
    out: Path,
    progress: Progress,
    *,
    note: str = "",
    is_over: Callable[[], bool] = lambda: False,
) -> RunRecords:
    """Measure a group.

    Args:
        group: what to measure.
        dataset: one recording per round.
        out: folder of the files.
        progress: told about each step.
        note: free text for the header.
        is_over: whether time is up; then `LEAST_ROUNDS` are enough.
    """

    def told(done: int, total: int, what: str) -> None:
        progress(done, total, what)
        if is_over() and done >= (1 + LEAST_ROUNDS) * len(group.cases):
            raise _TimeIsUpError

    path = _path(group, dataset, out)
    path.unlink(missing_ok=True)
    with suppress(_TimeIsUpError):  # every case is closed and on record all the same
        evaluate(group.cases, dataset, path, told, together=TOGETHER, note=note)
    return read_run(path)


def kept_run(group: CaseGroup, dataset: Dataset, out: Path) -> RunRecords | None:
    """What was measured before, when all of it is there."""
    path = _path(group, dataset, out)
    found = read_run(path) if path.is_file() else None
    whole = found is not None and is_whole(found, [case.name for case in group.cases])
    return found if whole else None


def _path(group: CaseGroup, dataset: Dataset, out: Path) -> Path:
    weights = checkpoint_hashes(group.cases[0].model)
    key = cases_key(group.cases, weights, [group.rounds, dataset.sha256])
    return out / f"{group.key}-{key}.jsonl"


def is_whole(run: RunRecords, names: Sequence[str]) -> bool:
    """Whether every case is over: its record comes last."""
    return {case.name for case in run.cases} >= set(names)
