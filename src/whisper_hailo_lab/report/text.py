"""Figures as people read them: one spelling of numbers for terminal, Markdown and HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence

from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.report.table import Table, table_of
from whisper_hailo_lab.runs.records import FileResult
from whisper_hailo_lab.runs.summary import Summary
from whisper_hailo_lab.score import score_file


def percent(rate: float | None, digits: int = 1) -> str:
    """`12.3 %`, or a dash for what has no rate."""
    if rate is None or not math.isfinite(rate):
        return "-"
    return f"{100 * rate:.{digits}f} %"


def number(value: float | None, digits: int = 1) -> str:
    """A number, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def share(count: int | None, total: int) -> str:
    """`3 of 40`, or a dash for what is not told."""
    return "-" if count is None else f"{count} of {total}"


def difference_text(rate: float, interval: tuple[float, float]) -> str:
    """`-0.3 (-0.9 to +0.2)`: points by which a rate is larger than another, with the interval."""
    low, high = interval
    return f"{100 * rate:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def score_text(score: Score) -> str:
    """`5.0 % (2 S 1 D 0 I of 60)`."""
    return (
        f"{percent(score.rate)} ({score.substitutions} S {score.deletions} D "
        f"{score.insertions} I of {score.reference_count})"
    )


def file_text(record: FileResult) -> str:
    """Three lines about one recording."""
    if record.error:
        return f"{record.case} | {record.id}: FAILED: {record.error}\n"
    words = score_file(record.reference, record.hypothesis, "normalised", record.language).words
    stages = "".join(f"{name} {ms:.1f}, " for name, ms in record.stages_ms.items())
    return (
        f"{record.case} | {record.id}: WER {score_text(words)}; "
        f"{stages}total {record.total_ms:.1f} ms{'; runaway' if record.runaway else ''}\n"
        f"  said:  {record.reference}\n  heard: {record.hypothesis}\n"
    )


def cases_table(summaries: Sequence[Summary]) -> Table:
    """One row per case: accuracy, times, rates."""
    return table_of(
        summaries,
        ("case", lambda s: s.case.name),
        ("files", lambda s: f"{s.n_heard}/{s.n_files}"),
        ("WER (corpus)", lambda s: score_text(s.normalised.words) if s.n_heard else "-"),
        ("WER (mean)", lambda s: percent(s.normalised.mean_wer if s.n_heard else None)),
        ("CER", lambda s: percent(s.normalised.characters.rate if s.n_heard else None)),
        ("simple WER / CER (mean)", simple_text),
        ("runaway", lambda s: share(s.n_runaway, s.n_heard)),
        ("repetitive", lambda s: share(s.n_repetitive, s.n_heard)),
        ("text for silence", lambda s: share(s.n_hallucinated, s.n_silent)),
        ("median ms", lambda s: number(s.times.median_ms if s.times else None)),
        ("p95 ms", lambda s: number(s.times.p95_ms if s.times else None)),
        ("rtfx", lambda s: number(s.rtfx if s.n_heard else None)),
        ("CPU s per s", lambda s: number(s.cpu_per_audio_s if s.n_heard else None, 3)),
        ("model MiB", lambda s: number(s.case.memory.components_total)),
        ("peak MiB", lambda s: number(s.case.memory.peak, 0)),
    )


def simple_text(summary: Summary) -> str:
    """`30.0 % / 10.0 %`: word and character error rates in the study's form."""
    if not summary.n_heard:
        return "-"
    return f"{percent(summary.simple.mean_wer)} / {percent(summary.simple.mean_cer)}"


def cases_text(summaries: Sequence[Summary]) -> str:
    """The table of all cases, turned on its side so that it fits a terminal."""
    table = cases_table(summaries)
    failures = "".join(
        f"{s.case.name}: FAILED: {s.case.error}\n" for s in summaries if s.case.error
    )
    return failures + table.transposed().plain()
