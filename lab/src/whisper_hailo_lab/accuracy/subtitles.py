"""How far subtitles keep the limits of subtitling guides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from whisper_hailo.text.break_points import CLAUSE, find_break_cost
from whisper_hailo.text.cue_layout import MAX_CUE_S, MIN_CUE_S, find_limits
from whisper_hailo.text.function_words import NO_FUNCTION_WORDS
from whisper_hailo_lab.tables import Column, Table, format_share, make_table

_CUE: Final = re.compile(
    r"\d+\n(\d+):(\d\d):(\d\d),(\d{3}) --> (\d+):(\d\d):(\d\d),(\d{3})\n((?:.+\n)+)"
)
_TOLERANCE_S: Final = 0.0015
"""Times of files are rounded to milliseconds."""


@dataclass(frozen=True, slots=True)
class ShownCue:
    """A cue of a file, in seconds."""

    start_s: float
    end_s: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conformity:
    """Counts of cues and lines that keep a limit.

    Attributes:
        name: of the row.
        narrow_lines: fit the width of their script.
        small_cues: have two lines at most.
        calm_cues: can be read in their time.
        timed_cues: are shown for 5/6 s to 7 s.
        whole_cues: end with a sentence or clause.
        overlaps: cues that begin before the one before ends.
    """

    name: str
    cues: int = 0
    lines: int = 0
    narrow_lines: int = 0
    small_cues: int = 0
    calm_cues: int = 0
    timed_cues: int = 0
    whole_cues: int = 0
    overlaps: int = 0


def parse_srt(text: str) -> list[ShownCue]:
    """Return the cues of a SubRip file."""
    cues = []
    for match in _CUE.finditer(text):
        numbers = [int(group) for group in match.groups()[:8]]
        start_s = _to_seconds(numbers[:4])
        end_s = _to_seconds(numbers[4:])
        cues.append(ShownCue(start_s, end_s, tuple(match[9].splitlines())))
    return cues


def _to_seconds(numbers: list[int]) -> float:
    hours, minutes, seconds, ms = numbers
    return hours * 3600 + minutes * 60 + seconds + ms / 1000


def count_conformity(name: str, files: Iterable[str]) -> Conformity:
    """Count over SubRip files; each has the limits of its own script."""
    counts = dict.fromkeys(Conformity.__slots__, 0)
    for text in files:
        cues = parse_srt(text)
        limits = find_limits("".join(line for cue in cues for line in cue.lines))
        previous_end_s = 0.0
        for cue in cues:
            shown_s = cue.end_s - cue.start_s
            widths = [limits.width(line) for line in cue.lines]
            least_s = sum(widths) / limits.chars_per_second
            end_cost = find_break_cost(cue.lines[-1], "", NO_FUNCTION_WORDS)
            counts["cues"] += 1
            counts["lines"] += len(cue.lines)
            counts["narrow_lines"] += sum(
                width <= limits.line_width for width in widths
            )
            counts["small_cues"] += len(cue.lines) <= 2
            counts["calm_cues"] += shown_s + _TOLERANCE_S >= least_s
            is_timed = MIN_CUE_S - _TOLERANCE_S <= shown_s <= MAX_CUE_S + _TOLERANCE_S
            counts["timed_cues"] += is_timed
            counts["whole_cues"] += end_cost <= CLAUSE
            counts["overlaps"] += cue.start_s < previous_end_s
            previous_end_s = cue.end_s
    del counts["name"]
    return Conformity(name, **counts)


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of the table."""

    name: str
    cues: int
    lines: str
    sizes: str
    speeds: str
    times: str
    ends: str
    overlaps: int


COLUMNS: Final[tuple[Column, ...]] = (
    ("cues", "{name}"),
    ("number", "{cues}"),
    ("lines within the width", "{lines}"),
    ("two lines at most", "{sizes}"),
    ("readable in their time", "{speeds}"),
    ("shown for 5/6 s to 7 s", "{times}"),
    ("end with a sentence or clause", "{ends}"),
    ("overlaps", "{overlaps}"),
)


def compare_conformity(counts: Iterable[Conformity]) -> Table:
    """Return a table with a row for each kind of cues."""
    rows = [
        _Row(
            name=item.name,
            cues=item.cues,
            lines=format_share(item.narrow_lines, item.lines),
            sizes=format_share(item.small_cues, item.cues),
            speeds=format_share(item.calm_cues, item.cues),
            times=format_share(item.timed_cues, item.cues),
            ends=format_share(item.whole_cues, item.cues),
            overlaps=item.overlaps,
        )
        for item in counts
    ]
    return make_table(rows, COLUMNS)
