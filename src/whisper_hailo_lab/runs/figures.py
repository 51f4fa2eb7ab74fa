"""A case's and a file's figures as plain JSON values."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.runs.records import FileResult
from whisper_hailo_lab.runs.summary import Summary
from whisper_hailo_lab.score import Evaluation, score_file


def file_figures(record: FileResult) -> dict[str, Any]:
    """One recording: texts, word errors in the field's form, stage times, or the error."""
    known: dict[str, Any] = {"case": record.case, "id": record.id}
    if record.error:
        return known | {"error": record.error}
    scores = score_file(record.reference, record.hypothesis, "normalised", record.language)
    simple = score_file(record.reference, record.hypothesis, "simple", record.language)
    return known | {
        "duration_s": record.duration_s,
        "reference": record.reference,
        "hypothesis": record.hypothesis,
        "words": counts(scores.words),
        "characters": counts(scores.characters),
        "simple_wer": finite(simple.words.rate),
        "stages_ms": record.stages_ms,
        "total_ms": record.total_ms,
        "cpu_s": record.cpu_s,
        "runaway": record.runaway,
    }


def case_figures(summary: Summary) -> dict[str, Any]:
    """Everything about a case but its files."""
    case, memory = summary.case, summary.case.memory
    return {
        "case": case.name,
        "system": case.system,
        "row": case.row,
        "model": case.model,
        "settings": case.settings,
        "heard_as": case.heard_as,
        "versions": case.versions,
        "error": case.error,
        "files": {
            "tried": summary.n_files,
            "failed": summary.n_failed,
            "silent": summary.n_silent,
            "silent_with_text": summary.n_hallucinated,
            "runaway": summary.n_runaway,
            "repetitive": summary.n_repetitive,
        },
        "normalised": _rates(summary.normalised),
        "simple": _rates(summary.simple),
        "words_with_failed": counts(summary.words_with_failed),
        "audio_s": summary.audio_s,
        "rtfx": summary.rtfx,
        "cpu_s_per_audio_s": summary.cpu_per_audio_s,
        "times_ms": asdict(summary.times) if summary.times else None,
        "memory_mib": asdict(memory) | {"components_total": memory.components_total},
        "load_ms": case.load_ms,
        "warm_up_ms": list(case.warm_up_ms),
    }


def counts(score: Score) -> dict[str, Any]:
    """Operations and their rate; `null` where there is no rate."""
    return asdict(score) | {"errors": score.errors, "rate": finite(score.rate)}


def finite(value: float) -> float | None:
    """JSON has no infinity: an invented text against an empty reference has no rate."""
    return value if math.isfinite(value) else None


def _rates(scores: Evaluation) -> dict[str, Any] | None:
    """Of the files that were heard; `null` where none was: silence about all is no rate of 0."""
    if not scores.files:
        return None
    low, high = scores.wer_interval()
    return {
        "words": counts(scores.words),
        "characters": counts(scores.characters),
        "mean_wer": scores.mean_wer,
        "mean_cer": scores.mean_cer,
        "wer_interval": [finite(low), finite(high)],
    }
