"""Groups of cases that take turns, each kept in a file until what it measures changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.data.datasets import Dataset, Sample
from whisper_hailo_lab.formats.prepare import checkpoint_hashes
from whisper_hailo_lab.harness.evaluate import evaluate
from whisper_hailo_lab.harness.processes import Progress
from whisper_hailo_lab.runs.records import RunRecords
from whisper_hailo_lab.runs.run_file import read_run
from whisper_hailo_lab.speed.keys import cases_key
from whisper_hailo_lab.speed.plan import CaseGroup

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
