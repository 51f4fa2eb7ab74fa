"""The figures of a case, as a pure function of its records.

A failed file is counted; its words count as deleted in `words_with_failed`, so that a system gains
nothing by failing on hard files. Times and rates of a case are over the files it heard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo.decoding.decoded import compression_ratio
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.runs.records import CaseRecord, FileResult, RunRecords
from whisper_hailo_lab.score import Evaluation, Form, normalise_text, score_file

REPETITION_RATIO: Final = 2.4
"""Text that compresses better repeats itself (OpenAI Whisper's `compression_ratio_threshold`)."""

ENCODER_STAGES: Final = ("encode",)
DECODER_STAGES: Final = ("cross_kv", "decode")


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds per file over the files that were heard.

    Attributes:
        encoder_ms: mean; `None` where the system does not tell its stages apart.
        decoder_ms: mean, cross keys and values included.
        mel_ms: mean.
        total_ms: mean.
        median_ms: of the totals.
        p95_ms: 95th percentile of the totals.
    """

    encoder_ms: float | None
    decoder_ms: float | None
    mel_ms: float | None
    total_ms: float
    median_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything about one case.

    Attributes:
        case: how it was run.
        normalised: the field's scores; `simple`: the study's.
        words_with_failed: word counts with every failed file as if nothing was heard.
        n_files: files tried; `n_failed`: of them failed.
        n_silent: files without words; `n_hallucinated`: of them given words.
        n_runaway: files whose token budget ran out; `None` where the system does not tell.
        n_repetitive: files whose text compresses better than `REPETITION_RATIO`.
        audio_s: seconds heard.
        rtfx: seconds heard per second of computing, each counted once.
        cpu_per_audio_s: processor seconds per second heard.
        times: per file; `None` when nothing was heard.
    """

    case: CaseRecord
    normalised: Evaluation
    simple: Evaluation
    words_with_failed: Score
    n_files: int
    n_failed: int
    n_silent: int
    n_hallucinated: int
    n_runaway: int | None
    n_repetitive: int
    audio_s: float
    rtfx: float
    cpu_per_audio_s: float
    times: Times | None

    @property
    def n_heard(self) -> int:
        """Files that gave a result."""
        return self.n_files - self.n_failed


def summarise(run: RunRecords) -> tuple[Summary, ...]:
    """Every case of a run, in order."""
    return tuple(summarise_case(case, run.files_of(case.name)) for case in run.cases)


def summarise_case(case: CaseRecord, files: Sequence[FileResult]) -> Summary:
    """One case."""
    heard = [record for record in files if not record.error]
    failed = [record for record in files if record.error]
    normalised = _scores(heard, "normalised")
    lost = [score_file(r.reference, "", "normalised", r.language).words for r in failed]
    silent = [r for r in heard if not _words(r.reference, r.language)]
    told = [r.runaway for r in heard if r.runaway is not None]
    audio_s = sum(record.duration_s for record in heard)
    compute_s = sum(record.total_ms for record in heard) / 1000.0
    return Summary(
        case=case,
        normalised=normalised,
        simple=_scores(heard, "simple"),
        words_with_failed=sum(lost, normalised.words),
        n_files=len(files),
        n_failed=len(failed),
        n_silent=len(silent),
        n_hallucinated=sum(bool(_words(r.hypothesis, r.language)) for r in silent),
        n_runaway=sum(told) if told else None,
        n_repetitive=sum(repetitive(record.hypothesis) for record in heard),
        audio_s=audio_s,
        rtfx=rtfx(audio_s, compute_s),
        cpu_per_audio_s=sum(r.cpu_s for r in heard) / audio_s if audio_s else 0.0,
        times=_times(heard) if heard else None,
    )


def rtfx(audio_s: float, compute_s: float) -> float:
    """Audio seconds per second of computing; 0 where nothing was computed."""
    return audio_s / compute_s if compute_s > 0 else 0.0


def paired_ratio(
    files: Sequence[FileResult], base: Sequence[FileResult], what: str = "total"
) -> float | None:
    """Median over the files of one case's time by another's for the same file.

    Args:
        files: records of a case.
        base: records of the case that it is compared with, taken in the same run.
        what: `total`, `encoder` or `decoder`.

    Returns:
        the ratio, above 1 where the case is slower; `None` without a common file.
    """
    by_id = {record.id: record for record in base if not record.error}
    pairs = [
        (stage_ms(record, what), stage_ms(by_id[record.id], what))
        for record in files
        if not record.error and record.id in by_id
    ]
    ratios = [mine / other for mine, other in pairs if mine is not None and other]
    return float(np.median(ratios)) if ratios else None


def stage_ms(record: FileResult, what: str) -> float | None:
    """Milliseconds of one recording; `None` where the system does not tell them.

    Args:
        record: of a system.
        what: `total`, `work` (all from log-mel to tokens; a system that does not tell its log-mel
            apart has it in its work), `cpu` (processor time of all), `encoder`, `decoder` (cross
            keys and values included), or a stage as systems name it.
    """
    whole = {
        "total": record.total_ms,
        "work": record.total_ms - record.stages_ms.get("mel", 0.0),
        "cpu": record.cpu_s * 1000.0,
    }
    if what in whole:
        return whole[what]
    named = {"encoder": ENCODER_STAGES, "decoder": DECODER_STAGES}.get(what, (what,))
    present = [record.stages_ms[stage] for stage in named if stage in record.stages_ms]
    return sum(present) if present else None


def median_cpu_ms(files: Sequence[FileResult]) -> float | None:
    """Median over the files of their processor time; `None` where none was heard."""
    told = [record.cpu_s * 1000.0 for record in files if not record.error]
    return float(np.median(told)) if told else None


def repetitive(text: str) -> bool:
    """Whether a text says the same over and over."""
    return bool(text) and compression_ratio(text) > REPETITION_RATIO


def _scores(heard: Sequence[FileResult], form: Form) -> Evaluation:
    files = tuple(score_file(r.reference, r.hypothesis, form, r.language) for r in heard)
    return Evaluation(form=form, language=heard[0].language if heard else "en", files=files)


def _words(text: str, language: str) -> str:
    return normalise_text(text, "normalised", language)


def _times(heard: Sequence[FileResult]) -> Times:
    totals = np.array([record.total_ms for record in heard])
    return Times(
        encoder_ms=_mean_ms(heard, "encoder"),
        decoder_ms=_mean_ms(heard, "decoder"),
        mel_ms=_mean_ms(heard, "mel"),
        total_ms=float(totals.mean()),
        median_ms=float(np.median(totals)),
        p95_ms=float(np.percentile(totals, 95)),
    )


def _mean_ms(heard: Sequence[FileResult], what: str) -> float | None:
    """Mean over the files; `None` unless every file tells it."""
    values = [stage_ms(record, what) for record in heard]
    told = [value for value in values if value is not None]
    return float(np.mean(told)) if len(told) == len(values) else None


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
