"""Figures of a case, computed from its records.

In `words_with_failed` the words of a failed file count as deleted, so that a system gains nothing
by failing on hard files. The other rates and the times are of the files that succeeded.
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
"""Compression of a text above which it repeats itself, as in OpenAI Whisper."""

ENCODER_STAGES: Final = ("encode",)
DECODER_STAGES: Final = ("cross_kv", "decode")


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds per file.

    Attributes:
        encoder_ms: mean; `None` if the system does not report its stages.
        decoder_ms: mean, cross keys and values included; `None` likewise.
        mel_ms: mean; `None` likewise.
        total_ms: mean of the whole.
        median_ms: median of the whole.
        p95_ms: 95th percentile of the whole.
        cpu_ms: mean of the processor's time. Unlike the others it does not grow with what else
            runs on the machine.
    """

    encoder_ms: float | None
    decoder_ms: float | None
    mel_ms: float | None
    total_ms: float
    median_ms: float
    p95_ms: float
    cpu_ms: float

    def cpu_share_ms(self, stage_ms: float | None) -> float:
        """Return the processor's time of a stage, by its share of the whole; 0 if unknown."""
        if stage_ms is None or self.total_ms == 0:
            return 0.0
        return self.cpu_ms * stage_ms / self.total_ms


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one case.

    Attributes:
        case: record of the case.
        normalised: scores of normalised texts.
        simple: scores in the study's form.
        words_with_failed: word counts, with empty texts for failed files.
        n_files: all files.
        n_failed: files that failed.
        n_silent: files without words.
        n_hallucinated: files without words that were given some.
        n_runaway: files whose token budget ran out; `None` if the system does not report it.
        n_repetitive: files whose text repeats itself.
        audio_s: duration of all files that succeeded.
        rtfx: seconds of audio per second of computing; NaN with an emulated chip.
        cpu_per_audio_s: processor seconds per second of audio; NaN with an emulated chip.
        times: times per file; `None` if no file succeeded, and with an emulated chip.
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
        """Files that succeeded."""
        return self.n_files - self.n_failed


def summarise(run: RunRecords) -> tuple[Summary, ...]:
    """Return the figures of every case of a run, in order."""
    return tuple(summarise_case(case, run.files_of(case.name)) for case in run.cases)


def summarise_case(case: CaseRecord, files: Sequence[FileResult]) -> Summary:
    """Return the figures of one case."""
    heard = [record for record in files if not record.error]
    failed = [record for record in files if record.error]
    normalised = _score_files(heard, "normalised")
    lost = [
        score_file(record.reference, "", "normalised", record.language).words
        for record in failed
    ]
    silent = [
        record for record in heard if not _has_words(record.reference, record.language)
    ]
    hallucinated = [
        record for record in silent if _has_words(record.hypothesis, record.language)
    ]
    runaways = [record.runaway for record in heard if record.runaway is not None]
    audio_s = sum(record.duration_s for record in heard)
    compute_s = sum(record.total_ms for record in heard) / 1000.0
    audio_per_compute = rtfx(audio_s, compute_s)
    cpu_s = sum(record.cpu_s for record in heard)
    cpu_per_audio_s = cpu_s / audio_s if audio_s else 0.0
    times = _summarise_times(heard) if heard else None
    if (
        case.is_emulated
    ):  # the emulator is slower than the encoder that it stands in for
        audio_per_compute = math.nan
        cpu_per_audio_s = math.nan
        times = None
    return Summary(
        case=case,
        normalised=normalised,
        simple=_score_files(heard, "simple"),
        words_with_failed=sum(lost, normalised.words),
        n_files=len(files),
        n_failed=len(failed),
        n_silent=len(silent),
        n_hallucinated=len(hallucinated),
        n_runaway=sum(runaways) if runaways else None,
        n_repetitive=sum(is_repetitive(record.hypothesis) for record in heard),
        audio_s=audio_s,
        rtfx=audio_per_compute,
        cpu_per_audio_s=cpu_per_audio_s,
        times=times,
    )


def rtfx(audio_s: float, compute_s: float) -> float:
    """Return seconds of audio per second of computing; 0 if nothing was computed."""
    return audio_s / compute_s if compute_s > 0 else 0.0


def paired_ratio(
    files: Sequence[FileResult], base: Sequence[FileResult], stage: str = "total"
) -> float | None:
    """Return the median over the files of one case's time by another's for the same file.

    Args:
        files: records of a case.
        base: records of the case that it is compared with, in the same run.
        stage: `total`, `cpu`, `encoder` or `decoder`.

    Returns:
        ratio, above 1 if the case is slower; `None` without a common file.
    """
    base_by_id = {record.id: record for record in base if not record.error}
    ratios = []
    for record in files:
        if record.error or record.id not in base_by_id:
            continue
        own_ms = stage_ms(record, stage)
        base_ms = stage_ms(base_by_id[record.id], stage)
        if own_ms is not None and base_ms:
            ratios.append(own_ms / base_ms)
    return float(np.median(ratios)) if ratios else None


def stage_ms(record: FileResult, stage: str) -> float | None:
    """Return milliseconds of one recording; `None` if the system does not report them.

    Args:
        record: record of the recording.
        stage: `total`, `cpu` (the processor's time of the whole), `encoder`, `decoder` (cross keys
            and values included), or a stage as systems name it.
    """
    names: tuple[str, ...]
    match stage:
        case "total":
            return record.total_ms
        case "cpu":
            return 1000.0 * record.cpu_s
        case "encoder":
            names = ENCODER_STAGES
        case "decoder":
            names = DECODER_STAGES
        case _:
            names = (stage,)
    times = [record.stages_ms[name] for name in names if name in record.stages_ms]
    return sum(times) if times else None


def is_repetitive(text: str) -> bool:
    """Return whether a text repeats itself."""
    return bool(text) and compression_ratio(text) > REPETITION_RATIO


def _score_files(records: Sequence[FileResult], form: Form) -> Evaluation:
    files = tuple(
        score_file(record.reference, record.hypothesis, form, record.language)
        for record in records
    )
    language = records[0].language if records else "en"
    return Evaluation(form=form, language=language, files=files)


def _has_words(text: str, language: str) -> bool:
    """Return whether a text has words after the normaliser, which drops marks such as `[Music]`."""
    return bool(normalise_text(text, "normalised", language))


def _summarise_times(heard: Sequence[FileResult]) -> Times:
    totals = np.array([record.total_ms for record in heard])
    return Times(
        encoder_ms=_mean_ms(heard, "encoder"),
        decoder_ms=_mean_ms(heard, "decoder"),
        mel_ms=_mean_ms(heard, "mel"),
        total_ms=float(totals.mean()),
        median_ms=float(np.median(totals)),
        p95_ms=float(np.percentile(totals, 95)),
        cpu_ms=1000.0 * float(np.mean([record.cpu_s for record in heard])),
    )


def _mean_ms(heard: Sequence[FileResult], stage: str) -> float | None:
    """Return the mean time of a stage; `None` unless every file has it."""
    times = []
    for record in heard:
        time_ms = stage_ms(record, stage)
        if time_ms is None:
            return None
        times.append(time_ms)
    return float(np.mean(times))


def file_figures(record: FileResult) -> dict[str, Any]:
    """Return texts, errors and times of one recording as JSON, or its error."""
    figures: dict[str, Any] = {"case": record.case, "id": record.id}
    if record.error:
        return figures | {"error": record.error}
    scores = score_file(
        record.reference, record.hypothesis, "normalised", record.language
    )
    simple = score_file(record.reference, record.hypothesis, "simple", record.language)
    return figures | {
        "duration_s": record.duration_s,
        "reference": record.reference,
        "hypothesis": record.hypothesis,
        "words": score_json(scores.words),
        "characters": score_json(scores.characters),
        "simple_wer": finite_or_none(simple.words.rate),
        "stages_ms": record.stages_ms,
        "total_ms": record.total_ms,
        "cpu_s": record.cpu_s,
        "runaway": record.runaway,
    }


def case_figures(summary: Summary) -> dict[str, Any]:
    """Return the figures of a case as JSON, without those of its files."""
    case = summary.case
    memory = asdict(case.memory) | {"components_total": case.memory.components_total}
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
        "normalised": _evaluation_json(summary.normalised),
        "simple": _evaluation_json(summary.simple),
        "words_with_failed": score_json(summary.words_with_failed),
        "audio_s": summary.audio_s,
        "rtfx": finite_or_none(summary.rtfx),
        "cpu_s_per_audio_s": finite_or_none(summary.cpu_per_audio_s),
        "times_ms": asdict(summary.times) if summary.times else None,
        "memory_mib": memory,
        "load_ms": case.load_ms,
        "warm_up_ms": list(case.warm_up_ms),
    }


def score_json(score: Score) -> dict[str, Any]:
    """Return edit operations and their rate as JSON; an infinite rate is `null`."""
    return asdict(score) | {"errors": score.errors, "rate": finite_or_none(score.rate)}


def finite_or_none(value: float) -> float | None:
    """Return a finite number, or `None` for another, which JSON does not have."""
    return value if math.isfinite(value) else None


def _evaluation_json(scores: Evaluation) -> dict[str, Any] | None:
    """Return rates as JSON; `None` if no file succeeded, whose rate of 0 would be misleading."""
    if not scores.files:
        return None
    low, high = scores.wer_interval()
    return {
        "words": score_json(scores.words),
        "characters": score_json(scores.characters),
        "mean_wer": scores.mean_wer,
        "mean_cer": scores.mean_cer,
        "wer_interval": [finite_or_none(low), finite_or_none(high)],
    }
