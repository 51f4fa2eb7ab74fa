"""A table that can be written as text, Markdown and HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeVar

from whisper_hailo_lab.rates import Score
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


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text.

    Attributes:
        columns: headings.
        rows: one tuple per row, as long as the headings.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def transposed(self) -> Table:
        """Rows and columns exchanged; the first column becomes the headings."""
        first, *rest = zip(self.columns, *self.rows, strict=True)
        return Table(columns=first, rows=tuple(rest))

    def plain(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        texts = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
        return "\n".join(texts) + "\n"

    def markdown(self) -> str:
        """GitHub's tables; a bar in a cell is escaped."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        texts = ("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)
        head, rule, *rest = texts
        return "\n".join([head, rule.replace(" ", ""), *rest]) + "\n"

    def html(self) -> str:
        """An HTML table; numbers are set right by the style sheet."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
            for row in self.rows
        )
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


Row = TypeVar("Row")


def table_of(rows: Iterable[Row], *columns: tuple[str, Callable[[Row], str]]) -> Table:
    """A table whose columns say what stands in them."""
    heads, cells = zip(*columns, strict=True)
    return Table(heads, tuple(tuple(cell(row) for cell in cells) for row in rows))
