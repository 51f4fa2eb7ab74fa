"""Cues that a person can read: which words form one, and how its lines are split.

The best cues of a stretch of speech have the least total cost over all ways to break it, found by
dynamic programming, as TeX breaks paragraphs (Knuth and Plass, 1981). The rules are those of
subtitling guides (Netflix's Timed Text Style Guides, the BBC's Subtitle Guidelines).
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from whisper_hailo.text.break_points import (
    BOUND,
    CLAUSE,
    SENTENCE,
    Unit,
    display_width,
    may_split,
)

MIN_CUE_S: Final = 5 / 6
MAX_CUE_S: Final = 7.0
MAX_LINES: Final = 2

LONG_PAUSE_S: Final = 2.5
"""A pause as long as this always ends a cue. Slow speakers pause for 2 s within a clause."""

_CUE_COST: Final = 3.0
"""Of each cue: fuller cues are calmer to read."""

_BREAK_WEIGHT: Final = 1.5
"""The end of a cue interrupts more than the end of a line."""

_PAUSE_RELIEF: Final = 4.0
"""What a second of pause takes from the cost of a break."""

_PAUSE_COST: Final = 5.0
"""Of a second of pause within a cue, beyond `_SHORT_PAUSE_S`."""

_SHORT_PAUSE_S: Final = 0.4

_HURRY_COST: Final = 12.0
"""Of a cue that would have to be shown for twice the time that there is."""

_ORPHAN_COST: Final = 5.0
"""Of a single short word on a line, or of up to two words behind the end of a sentence."""

_ORPHAN_WIDTH: Final = 7

_SHORT_WIDTH: Final = 12
"""Of a cue that is a fragment, if its clause begins before it or ends after it."""

_UNEVEN_COST: Final = 3.0
"""Of a lower line that is empty beside a full upper one; the reverse costs a third."""


@dataclass(frozen=True, slots=True)
class CueLimits:
    """What readers of a script can take.

    Attributes:
        line_width: most characters of a line.
        chars_per_second: most that are read in a second.
        columns: of a character; Chinese, Japanese and Korean ones are two columns wide.
        n_lines: most lines of a cue, one or two.
    """

    line_width: float
    chars_per_second: float
    columns: int = 1
    n_lines: int = MAX_LINES

    def width(self, text: str) -> float:
        """Return a text's width in characters of the script."""
        return display_width(text) / self.columns


LATIN: Final = CueLimits(42, 20.0)
"""Also of Cyrillic, Greek, Thai and all other scripts with narrow letters."""

CHINESE: Final = CueLimits(16, 9.0, 2)
JAPANESE: Final = CueLimits(16, 7.0, 2)
KOREAN: Final = CueLimits(16, 12.0, 2)


def find_limits(text: str) -> CueLimits:
    """Return the limits of the script that most letters of a text are written in."""
    letters = [character for character in text if character.isalpha()]
    wide = [
        letter
        for letter in letters
        if unicodedata.east_asian_width(letter) in {"W", "F"}
    ]
    if 2 * len(wide) <= len(letters):
        return LATIN
    names = [unicodedata.name(letter, "") for letter in wide]
    if any(name.startswith("HANGUL") for name in names):
        return KOREAN
    is_kana = any(name.startswith(("HIRAGANA", "KATAKANA")) for name in names)
    return JAPANESE if is_kana else CHINESE


def set_lines(units: Sequence[Unit], limits: CueLimits) -> list[str]:
    """Return the lines of a cue."""
    return _CueCosts(units, limits, math.inf).lines(0, len(units))


def split_wide_units(units: Sequence[Unit], limits: CueLimits) -> list[Unit]:
    """Return units that fit a line: wider ones are split, but no number and no Latin word."""
    fitting = []
    for unit in units:
        if limits.width(unit.text.strip()) <= limits.line_width:
            fitting.append(unit)
        else:
            fitting += _split_wide(unit, limits)
    return fitting


def _split_wide(unit: Unit, limits: CueLimits) -> Iterator[Unit]:
    """Yield parts of a unit, each as wide as a line can be; characters share the unit's time."""
    text = unit.text
    step_s = (unit.end_s - unit.start_s) / len(text)
    first = 0
    end = 0  # of the part that fits
    for index in range(1, len(text) + 1):
        if index < len(text) and not may_split(text, index):
            continue
        if end > first and limits.width(text[first:index].strip()) > limits.line_width:
            start_s = unit.start_s + step_s * first
            yield Unit(text[first:end], start_s, unit.start_s + step_s * end, BOUND)
            first = end
        end = index
    yield Unit(text[first:], unit.start_s + step_s * first, unit.end_s, unit.break_cost)


def find_cues(
    units: Sequence[Unit], limits: CueLimits, next_start_s: float = math.inf
) -> list[tuple[int, int]]:
    """Return the index range `(first, end)` of each cue."""
    costs = _CueCosts(units, limits, next_start_s)
    best = [0.0] + [math.inf] * len(units)
    first_of = [0] * (len(units) + 1)
    for end in range(1, len(units) + 1):
        for first in range(end - 1, -1, -1):
            cost = costs.cue(first, end)
            # A single unit is always a cue, however long.
            if math.isinf(cost):
                break
            if best[first] + cost < best[end]:
                best[end] = best[first] + cost
                first_of[end] = first
    ranges = []
    end = len(units)
    while end > 0:
        ranges.append((first_of[end], end))
        end = first_of[end]
    return ranges[::-1]


class _CueCosts:
    """Costs of the cues that a stretch of speech could have."""

    def __init__(
        self, units: Sequence[Unit], limits: CueLimits, next_start_s: float
    ) -> None:
        self._units = units
        self._limits = limits
        self._starts_s = [*(unit.start_s for unit in units), next_start_s]
        # A line's width is a difference of these, less the space that it begins with.
        self._ends = list(
            accumulate((limits.width(unit.text) for unit in units), initial=0.0)
        )
        self._spaces = [
            limits.width(unit.text) - limits.width(unit.text.lstrip()) for unit in units
        ]

    def cue(self, first: int, end: int) -> float:
        """Return the cost of a cue of units `first` to `end`; infinite where it may not be."""
        units = self._units
        line_cost, _ = self._best_split(first, end)
        if end - first == 1:
            line_cost = min(line_cost, _ORPHAN_COST)
        length_s = units[end - 1].end_s - units[first].start_s
        if math.isinf(line_cost) or (length_s > MAX_CUE_S and end - first > 1):
            return math.inf
        pauses = self._pause_cost(first, end)
        return (
            _CUE_COST
            + line_cost
            + pauses
            + self._hurry_cost(first, end)
            + self._end_cost(first, end)
        )

    def lines(self, first: int, end: int) -> list[str]:
        """Return the lines of a cue."""
        _, split = self._best_split(first, end)
        parts = [(first, end)] if split is None else [(first, split), (split, end)]
        return [
            "".join(unit.text for unit in self._units[a:b]).strip() for a, b in parts
        ]

    def _width(self, first: int, end: int) -> float:
        return self._ends[end] - self._ends[first] - self._spaces[first]

    def _best_split(self, first: int, end: int) -> tuple[float, int | None]:
        """Return the cost of a cue's lines, and where the second one begins, if there are two."""
        limit = self._limits.line_width
        if self._width(first, end) <= limit:
            return 0.0, None
        best: tuple[float, int | None] = (math.inf, None)
        if self._limits.n_lines == 1:
            return best
        orphan_width = min(_ORPHAN_WIDTH / self._limits.columns, limit / 4)
        for split in range(first + 1, end):
            upper = self._width(first, split)
            lower = self._width(split, end)
            if upper > limit:
                break
            if lower > limit:
                continue
            unevenness = (upper - lower) / limit
            cost = self._units[split - 1].break_cost / 2
            cost += _UNEVEN_COST * (unevenness if unevenness > 0 else -unevenness / 3)
            if min(upper, lower) < orphan_width:
                cost += _ORPHAN_COST
            if cost < best[0]:
                best = (cost, split)
        return best

    def _pause_cost(self, first: int, end: int) -> float:
        cost = 0.0
        for index in range(first + 1, end):
            pause_s = self._starts_s[index] - self._units[index - 1].end_s
            cost += _PAUSE_COST * max(0.0, pause_s - _SHORT_PAUSE_S)
        return cost

    def _hurry_cost(self, first: int, end: int) -> float:
        """Return the cost of the time that readers lack."""
        shown_s = min(MAX_CUE_S, self._starts_s[end] - self._starts_s[first])
        needed_s = max(
            MIN_CUE_S, self._width(first, end) / self._limits.chars_per_second
        )
        return _HURRY_COST * max(0.0, needed_s / max(shown_s, 0.1) - 1.0)

    def _end_cost(self, first: int, end: int) -> float:
        """Return the cost of a cue that ends here."""
        units = self._units
        pause_s = self._starts_s[end] - units[end - 1].end_s
        relief = _PAUSE_RELIEF * min(1.0, max(0.0, pause_s))
        cost = _BREAK_WEIGHT * max(0.0, units[end - 1].break_cost - relief)
        is_whole = units[end - 1].break_cost <= CLAUSE
        hangs = any(
            unit.break_cost == SENTENCE for unit in units[max(first, end - 3) : end - 1]
        )
        if hangs and not is_whole:
            cost += _ORPHAN_COST
        continues = first > 0 and units[first - 1].break_cost > CLAUSE
        is_short = self._width(first, end) < _SHORT_WIDTH / self._limits.columns
        if is_short and (continues or not is_whole):
            cost += _ORPHAN_COST
        return cost
