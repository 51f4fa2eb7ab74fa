"""Tables of transcripts for a terminal, and the groups that recordings are divided into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo_lab.data.joined import JOINED
from whisper_hailo_lab.rates import difference_interval
from whisper_hailo_lab.runs.outcomes import (
    OutcomeTotals,
    score_transcript,
    sum_outcomes,
)
from whisper_hailo_lab.runs.transcripts import TranscriptLine, common_transcripts
from whisper_hailo_lab.tables import (
    DASH,
    Column,
    Table,
    format_difference,
    format_percent,
    make_table,
)

ENGLISH: Final = "English"
OTHER: Final = "other languages"
SILENT: Final = "no speech"
LONG: Final = "long recordings"
KINDS: Final = (ENGLISH, OTHER, SILENT, LONG)


@dataclass(frozen=True, slots=True)
class _Row:
    """Counts of a file and a group.

    Attributes:
        name: file, with its group if there are several.
        totals: counts of its transcripts.
        difference: to the first file; a dash for the first file itself.
    """

    name: str
    totals: OutcomeTotals
    difference: str = DASH


def _format_error_rate(row: _Row) -> str:
    score = row.totals.score
    return format_percent(score.rate if score.reference_count else None)


def _format_load(row: _Row) -> str:
    """Return processor seconds per second of audio."""
    totals = row.totals
    return f"{totals.seconds_cpu / totals.seconds:.2f}" if totals.seconds else DASH


COLUMNS: Final[tuple[Column, ...]] = (
    ("", "{name}"),
    ("recordings", "{totals.recordings}"),
    ("error rate", _format_error_rate),
    ("errors", "{totals.score.errors} of {totals.score.reference_count}"),
    ("sub", "{totals.substitutions}"),
    ("del", "{totals.deletions}"),
    ("ins", "{totals.insertions}"),
    ("loops", "{totals.loops}"),
    ("no speech: with text", "{totals.no_speech_with_text} of {totals.no_speech}"),
    ("words", "{totals.invented}"),
    ("language right", "{totals.language_right} of {totals.recordings}"),
    ("CPU s per s", _format_load),
)


def compare_files(files: dict[str, list[TranscriptLine]], by: str = "all") -> Table:
    """Return a row for each group and file, over the recordings that all files have.

    Args:
        files: transcripts by name; all but the first are compared with the first.
        by: one of `GROUPS`.
    """
    columns = (*COLUMNS, ("difference to the first, 95 %", "{difference}"))
    return make_table(_make_rows(files, by), columns)


def _make_rows(files: dict[str, list[TranscriptLine]], by: str) -> Iterator[_Row]:
    common = dict(zip(files, common_transcripts(files.values()), strict=True))
    group = GROUPS[by]
    first = next(iter(common.values()), [])
    for name in dict.fromkeys(group(line) for line in first):
        base: list[TranscriptLine] = []
        for file, lines in common.items():
            chosen = [line for line in lines if group(line) == name]
            label = file if by == "all" else f"{name}: {file}"
            difference = compare_rates(chosen, base) if base else DASH
            yield _Row(label, sum_outcomes(chosen), difference)
            base = base or chosen


def compare_rates(
    lines: Sequence[TranscriptLine], base: Sequence[TranscriptLine]
) -> str:
    """Return by how much an error rate is larger, with its interval, recordings paired."""
    pairs = [
        (line, other)
        for line, other in zip(lines, base, strict=True)
        if line.has_speech
    ]
    if not pairs:
        return DASH
    spoken = [line for line, _ in pairs]
    spoken_base = [other for _, other in pairs]
    rate = sum_outcomes(spoken).score.rate
    base_rate = sum_outcomes(spoken_base).score.rate
    interval = difference_interval(
        [score_transcript(line).score for line in spoken],
        [score_transcript(line).score for line in spoken_base],
    )
    return format_difference(rate - base_rate, interval)


def kind_of(line: TranscriptLine) -> str:
    """Return one of `KINDS`; long recordings are those that were joined."""
    if line.set == JOINED:
        return LONG
    if not line.has_speech:
        return SILENT
    return ENGLISH if line.language == "en" else OTHER


GROUPS: Final[dict[str, Callable[[TranscriptLine], str]]] = {
    "all": lambda line: "all",
    "set": lambda line: f"{line.set} {line.language}",
    "language": lambda line: line.language,
    "kind": kind_of,
}
"""Ways to divide recordings into rows."""
