"""Tables of transcripts for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whisper_hailo_lab.accuracy.groups import GROUPS
from whisper_hailo_lab.rates import difference_interval
from whisper_hailo_lab.report.table import Table, difference_text, percent
from whisper_hailo_lab.runs.outcomes import OutcomeTotals, score_transcript, sum_outcomes
from whisper_hailo_lab.runs.transcripts import TranscriptLine, common_transcripts

COLUMNS: Final = (
    "", "recordings", "error rate", "errors", "sub", "del", "ins", "loops",
    "no speech: with text", "words", "language right", "CPU s per s",
)  # fmt: skip


def totals_row(name: str, totals: OutcomeTotals) -> tuple[str, ...]:
    """Return the cells of one row."""
    score = totals.score
    return (
        name,
        str(totals.recordings),
        percent(score.rate if score.reference_count else None),
        f"{score.errors} of {score.reference_count}",
        str(score.substitutions),
        str(score.deletions),
        str(score.insertions),
        str(totals.loops),
        f"{totals.no_speech_with_text} of {totals.no_speech}",
        str(totals.invented),
        f"{totals.language_right} of {totals.recordings}",
        f"{totals.seconds_cpu / totals.seconds:.2f}" if totals.seconds else "-",
    )


def compare_files(files: dict[str, list[TranscriptLine]], by: str = "all") -> Table:
    """Make one row per group and file, over the recordings that all files have.

    Args:
        files: transcripts by name; all but the first are compared with the first.
        by: one of `GROUPS`.
    """
    common = dict(zip(files, common_transcripts(files.values()), strict=True))
    group = GROUPS[by]
    names = list(dict.fromkeys(group(line) for line in next(iter(common.values()), [])))
    rows = []
    for name in names:
        base: list[TranscriptLine] = []
        for file, lines in common.items():
            chosen = [line for line in lines if group(line) == name]
            label = file if by == "all" else f"{name}: {file}"
            cells = totals_row(label, sum_outcomes(chosen))
            rows.append((*cells, difference(chosen, base) if base else "-"))
            base = base or chosen
    return Table((*COLUMNS, "difference to the first, 95 %"), tuple(rows))


def difference(lines: Sequence[TranscriptLine], base: Sequence[TranscriptLine]) -> str:
    """Return by how much an error rate is larger, with its interval, recordings paired."""
    pairs = [(a, b) for a, b in zip(lines, base, strict=True) if a.has_speech]
    if not pairs:
        return "-"
    mine, others = ([score_transcript(side).score for side in s] for s in zip(*pairs, strict=True))
    more = sum_outcomes([a for a, _ in pairs]).score.rate
    less = sum_outcomes([b for _, b in pairs]).score.rate
    return difference_text(more - less, difference_interval(mine, others))
