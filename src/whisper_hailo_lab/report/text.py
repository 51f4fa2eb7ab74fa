"""Figures as people read them: one spelling of numbers for terminal, Markdown and HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence

from whisper_hailo_lab.records import FileRecord
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.score import Score, score_file
from whisper_hailo_lab.summary import Summary


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


def score_text(score: Score) -> str:
    """`5.0 % (2 S 1 D 0 I of 60)`."""
    return (
        f"{percent(score.rate)} ({score.substitutions} S {score.deletions} D "
        f"{score.insertions} I of {score.reference_count})"
    )


def file_text(record: FileRecord) -> str:
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
    rows = []
    for s in summaries:
        times = s.times
        rows.append(
            (
                s.case.name,
                f"{s.n_heard}/{s.n_files}",
                score_text(s.normalised.words),
                percent(s.normalised.mean_wer),
                percent(s.normalised.characters.rate),
                f"{percent(s.simple.mean_wer)} / {percent(s.simple.mean_cer)}",
                share(s.n_runaway, s.n_heard),
                share(s.n_repetitive, s.n_heard),
                share(s.n_hallucinated, s.n_silent),
                number(times.median_ms if times else None),
                number(times.p95_ms if times else None),
                number(s.rtfx),
                number(s.cpu_per_audio_s, 3),
                number(s.case.memory.components_total),
                number(s.case.memory.peak, 0),
            )
        )
    return Table(
        columns=(
            "case",
            "files",
            "WER (corpus)",
            "WER (mean)",
            "CER",
            "simple WER / CER (mean)",
            "runaway",
            "repetitive",
            "text for silence",
            "median ms",
            "p95 ms",
            "rtfx",
            "CPU s per s",
            "model MiB",
            "peak MiB",
        ),
        rows=tuple(rows),
    )


def cases_text(summaries: Sequence[Summary]) -> str:
    """The table of all cases, turned on its side so that it fits a terminal."""
    table = cases_table(summaries)
    failures = "".join(
        f"{s.case.name}: FAILED: {s.case.error}\n" for s in summaries if s.case.error
    )
    return failures + table.transposed().plain()
