"""How far subtitles keep the limits of subtitling guides."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
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
        whole_cues: end with a sentence or clause, by their last character or in a pause between
            clips.
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


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause between clips of a joined recording, in seconds; each clip is a whole thought."""

    start_s: float
    end_s: float


_EARLY_S: Final = 0.3
_LATE_S: Final = 0.7
"""How far a cue may start from the clip that it begins with: cues lead, and times are rough."""


def count_conformity(
    name: str, files: Iterable[str], pauses: Iterable[Sequence[Pause]] = ()
) -> Conformity:
    """Count over SubRip files; each has the limits of its own script, and pauses if known."""
    counts = dict.fromkeys(Conformity.__slots__, 0)
    for text, known_pauses in zip_longest(files, pauses, fillvalue=()):
        cues = parse_srt(str(text))
        limits = find_limits("".join(line for cue in cues for line in cue.lines))
        previous_end_s = 0.0
        next_starts_s = [*(cue.start_s for cue in cues[1:]), math.inf]
        # Where nothing was said there is no cue that the end could follow.
        for cue, next_start_s in zip(cues, next_starts_s, strict=False):
            shown_s = cue.end_s - cue.start_s
            widths = [limits.width(line) for line in cue.lines]
            least_s = sum(widths) / limits.chars_per_second
            counts["cues"] += 1
            counts["lines"] += len(cue.lines)
            counts["narrow_lines"] += sum(
                width <= limits.line_width for width in widths
            )
            counts["small_cues"] += len(cue.lines) <= 2
            counts["calm_cues"] += shown_s + _TOLERANCE_S >= least_s
            is_timed = MIN_CUE_S - _TOLERANCE_S <= shown_s <= MAX_CUE_S + _TOLERANCE_S
            counts["timed_cues"] += is_timed
            counts["whole_cues"] += _is_whole(cue, next_start_s, known_pauses)
            counts["overlaps"] += cue.start_s < previous_end_s
            previous_end_s = cue.end_s
    del counts["name"]
    return Conformity(name, **counts)


def _is_whole(cue: ShownCue, next_start_s: float, pauses: Sequence[Pause]) -> bool:
    """Return whether a cue ends with punctuation, or the next one begins with a clip."""
    end_cost = find_break_cost(cue.lines[-1], "", NO_FUNCTION_WORDS)
    if end_cost <= CLAUSE or math.isinf(next_start_s):
        return True
    return any(
        pause.start_s - _EARLY_S <= next_start_s <= pause.end_s + _LATE_S
        for pause in pauses
    )


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
    edit_rate: str


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


EDIT_RATE: Final[Column] = ("SubER", "{edit_rate}")


def compare_conformity(
    counts: Iterable[Conformity], edit_rates: Mapping[str, float] = MappingProxyType({})
) -> Table:
    """Return a table with a row for each kind of cues.

    `edit_rates` are in percent, by name; without any there is no column of them.
    """
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
            edit_rate=_format_rate(edit_rates.get(item.name)),
        )
        for item in counts
    ]
    return make_table(rows, (*COLUMNS, EDIT_RATE) if edit_rates else COLUMNS)


def _format_rate(percent: float | None) -> str:
    return "-" if percent is None else f"{percent:.1f} %"
