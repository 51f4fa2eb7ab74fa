"""Retries with and without their limit: what they cost, and the words that they find."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

from whisper_hailo import Transcriber
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.search import fallback
from whisper_hailo_lab.accuracy.retry_cost import (
    SearchWork,
    WindowWork,
    WorkCounter,
    summarize_work,
)
from whisper_hailo_lab.accuracy.setups import AccuracySetup
from whisper_hailo_lab.accuracy.tables import kind_of
from whisper_hailo_lab.accuracy.transcribe import (
    TranscriptText,
    transcribe_all,
    transcribe_offline,
)
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_lab.runs.outcomes import sum_outcomes
from whisper_hailo_lab.runs.transcripts import TranscriptLine


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How doubtful windows are decoded again.

    Attributes:
        name: name of its row.
        is_limited: retries have a limit.
        options: of `Transcriber.transcribe`.
    """

    name: str
    is_limited: bool
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name of its files."""
        return self.name.replace(" ", "-").replace(",", "")


POLICIES: Final = (
    RetryPolicy("beam of 5, no limit", False, {"retry_beam_size": 5}),
    RetryPolicy("default", True),
)
"""The retries of 0.2, and those of today."""


def measure_policies(
    model: str, recordings: Sequence[SpeechRecording], out: Path, threads: int
) -> list[dict[str, Any]]:
    """Return a row per policy.

    Args:
        model: name or folder.
        recordings: what is transcribed with each policy.
        out: folder of transcripts and counts; what is there is not made again.
        threads: threads per operator.

    Raises:
        WhisperHailoError: the model cannot be had.
    """
    policies = {_make_setup(model, policy).name: policy for policy in POLICIES}
    setups = [_make_setup(model, policy) for policy in POLICIES]

    def count_work(
        transcriber: Transcriber,
        setup: AccuracySetup,
        recording: SpeechRecording,
        audio: FloatArray,
    ) -> TranscriptText:
        counter = WorkCounter(transcriber.decoder)
        counting = replace(transcriber, decoder=counter)
        is_limited = policies[setup.name].is_limited
        with nullcontext() if is_limited else without_limit():
            text = transcribe_offline(counting, setup, recording, audio)
        _append_work(_work_file(out, setup), recording.key, counter.windows)
        return text

    files = transcribe_all(setups, recordings, out, threads, count_work)
    return [
        _make_row(policy, files[setup.name], _work_file(out, setup))
        for policy, setup in zip(POLICIES, setups, strict=True)
    ]


@contextmanager
def without_limit() -> Iterator[None]:
    """Let each retry run to the limit of tokens, as in 0.2."""
    with mock.patch.object(fallback, "bound_retry", return_value=None):
        yield


def _make_setup(model: str, policy: RetryPolicy) -> AccuracySetup:
    # One window after another, so that each pass belongs to one.
    options = {"batch_size": 1} | policy.options
    return AccuracySetup(model, timestamps=True, options=options, label=policy.label)


def _work_file(out: Path, setup: AccuracySetup) -> Path:
    return out / f"{setup.name}.work.json-lines"


def _append_work(path: Path, key: str, windows: Sequence[WindowWork]) -> None:
    """Append a line with rows and seconds of each search of a recording's windows."""
    searches = [
        [(search.n_rows, round(search.seconds, 4)) for search in window.searches]
        for window in windows
    ]
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "windows": searches}) + "\n")


def _read_work(path: Path) -> dict[str, list[WindowWork]]:
    """Return the windows of each recording; the last line of a recording counts."""
    work: dict[str, list[WindowWork]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        work[entry["key"]] = [
            WindowWork([SearchWork(*search) for search in searches])
            for searches in entry["windows"]
        ]
    return work


def _make_row(
    policy: RetryPolicy, lines: Sequence[TranscriptLine], work_file: Path
) -> dict[str, Any]:
    """Return cost and errors of a policy."""
    work = _read_work(work_file)
    windows = [window for line in lines for window in work[line.key]]
    kinds: dict[str, list[TranscriptLine]] = {}
    for line in lines:
        kinds.setdefault(kind_of(line), []).append(line)
    words = {kind: sum_outcomes(chosen).as_json() for kind, chosen in kinds.items()}
    for counts in words.values():
        del counts[
            "seconds_cpu"
        ]  # the work of the decoder is the cost that counts here
    return {
        "policy": policy.name,
        "version": lines[0].version,
        "machine": lines[0].machine,
        "recordings": len(lines),
        "seconds": round(sum(line.seconds for line in lines)),
        "work": summarize_work(windows),
        "words": words,
    }
