"""Sets subtitles for reading while segments come.

Words wait until their stretch of speech is complete: the best cues of a stretch are known only
when all of it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES, Segment, Speaker, Word
from whisper_hailo.text.break_points import SENTENCE, Unit, display_width, split_units
from whisper_hailo.text.cue_layout import (
    LONG_PAUSE_S,
    CueLimits,
    find_cues,
    find_limits,
    set_lines,
    split_wide_units,
)
from whisper_hailo.text.cue_times import time_cue
from whisper_hailo.text.subtitles import (
    Cue,
    Layout,
    speaker_label,
    spread_times,
    timed_words,
)

_MAX_WAIT_S: Final = 60.0
"""Speech without a long pause waits this long; then its finished sentences are set."""

_CHECK_S: Final = 5.0
"""How much more speech may hold the end of a sentence that the last look did not find."""


class CueSetter:
    """Groups words into cues of one speaker and language that can be read in their time.

    Args:
        layout: its limits of lines replace those of the script.
        has_labels: the speaker's label stands on the first line and takes its room.
    """

    def __init__(
        self, layout: Layout | None = None, *, has_labels: bool = False
    ) -> None:
        self._layout = layout or Layout()
        self._has_labels = has_labels
        self._words: list[Word] = []
        self._speaker: Speaker | None = None
        self._language = ""
        self._check_s = (
            _MAX_WAIT_S  # of waiting speech: when it is looked through for sentences
        )
        self._previous_end_s = -math.inf

    def write(self, segment: Segment) -> Iterator[Cue]:
        """Yield the cues of stretches that end with, or before, this segment."""
        for word in _timed_words(segment):
            if self._words and self._ends_stretch(segment, word):
                yield from self._set_stretch(word.start_s)
            self._speaker = segment.speaker
            self._language = segment.language
            self._words.append(word)
            yield from self._set_sentences()

    def finish(self, next_start_s: float = math.inf) -> Iterator[Cue]:
        """Yield the cues of the words that wait; the next speech starts at `next_start_s`."""
        yield from self._set_stretch(next_start_s)

    def _ends_stretch(self, segment: Segment, word: Word) -> bool:
        """Return whether the waiting words are complete before a word."""
        if segment.speaker != self._speaker or segment.language != self._language:
            return True
        return word.start_s - self._words[-1].end_s >= LONG_PAUSE_S

    def _set_stretch(self, next_start_s: float) -> Iterator[Cue]:
        """Yield the cues of all words that wait."""
        words = self._words
        self._words = []
        self._check_s = _MAX_WAIT_S
        if words:
            units, limits = self._split(words)
            yield from self._set_cues(units, limits, next_start_s)

    def _set_sentences(self) -> Iterator[Cue]:
        """Yield the cues of finished sentences, if words have waited for long."""
        waiting_s = self._words[-1].end_s - self._words[0].start_s
        if waiting_s < self._check_s:
            return
        self._check_s = waiting_s + _CHECK_S
        units, limits = self._split(self._words)
        n_set = _find_cut(units, limits, must_cut=waiting_s >= 2 * _MAX_WAIT_S)
        if n_set == 0:
            return
        rest = units[n_set:]
        self._words = [Word(unit.start_s, unit.end_s, unit.text, 0.0) for unit in rest]
        self._check_s = _MAX_WAIT_S
        yield from self._set_cues(units[:n_set], limits, rest[0].start_s)

    def _split(self, words: Sequence[Word]) -> tuple[list[Unit], CueLimits]:
        """Return the units of words, none wider than a line may be, and the limits of cues."""
        limits = find_limits("".join(word.text for word in words))
        if self._layout.max_line_width is not None:
            limits = replace(limits, line_width=self._layout.max_line_width)
        if self._layout.max_line_count is not None:
            limits = replace(limits, n_lines=self._layout.max_line_count)
        if self._has_labels:
            label_width = display_width(speaker_label(self._speaker)) / limits.columns
            # Of a very long name some room is left, or every word would be a cue.
            line_width = max(limits.line_width / 2, limits.line_width - label_width)
            limits = replace(limits, line_width=line_width)
        return split_wide_units(split_units(words, self._language), limits), limits

    def _set_cues(
        self, units: Sequence[Unit], limits: CueLimits, next_start_s: float
    ) -> Iterator[Cue]:
        for first, end in find_cues(units, limits, next_start_s):
            lines = set_lines(units[first:end], limits)
            n_characters = sum(limits.width(line) for line in lines)
            following_s = units[end].start_s if end < len(units) else next_start_s
            start_s, end_s = time_cue(
                units[first].start_s,
                units[end - 1].end_s,
                reading_s=n_characters / limits.chars_per_second,
                previous_end_s=self._previous_end_s,
                next_start_s=following_s,
            )
            self._previous_end_s = end_s
            yield Cue(start_s, end_s, "\n".join(lines), self._speaker)


def _find_cut(units: Sequence[Unit], limits: CueLimits, *, must_cut: bool) -> int:
    """Return how many units can be set without those that follow; 0 if none.

    They end with the last sentence but one: the last may belong with what comes. Text without
    sentences ends before the last two cues, if it must.
    """
    ends = [n for n, unit in enumerate(units[:-1], 1) if unit.break_cost == SENTENCE]
    if len(ends) >= 2:
        return ends[-2]
    if not must_cut:
        return 0
    ranges = find_cues(units, limits)
    if len(ranges) <= 2:
        return 0
    _, end = ranges[-3]
    return end


def _timed_words(segment: Segment) -> Sequence[Word]:
    """Return the words of a segment; without word times they share its time by their length."""
    if segment.words or segment.language not in UNSPACED_LANGUAGES:
        words = timed_words(segment)
    else:
        # Its text is no list of words, and the next segment follows without a space.
        words = spread_times([segment.text], segment.start_s, segment.end_s)
    # A line end in a text would end its line, or the cue.
    plain = [replace(word, text=_join_spaces(word.text)) for word in words]
    return [word for word in plain if word.text.strip()]


def _join_spaces(text: str) -> str:
    """Return a text with single blanks for all white space; one at its start stays."""
    lead = " " if text[:1].isspace() else ""
    return lead + " ".join(text.split())
