"""Subtitles of a segment: as many as its text needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from whisper_hailo.core.types import Word
from whisper_hailo.live.events import Completed
from whisper_hailo.text.clauses import clauses, lines
from whisper_hailo.text.subtitles import Cue, Layout, spread

CUES: Final = Layout(max_line_width=42, max_line_count=2)
"""What broadcasters agree on, and all players show."""


def cues_of(event: Completed, layout: Layout = CUES) -> Iterator[Cue]:
    """Together they last as long as the segment; those of a translation are shown beside them."""
    said = list(_cues(timed_words(event), event, layout))
    words = [f" {word}" for word in (event.translation or "").split()]
    translated = _cues(spread(words, event.start_s, event.end_s), event, layout)
    yield from sorted([*said, *translated], key=lambda cue: cue.start_s)


def _cues(words: Sequence[Word], event: Completed, layout: Layout) -> Iterator[Cue]:
    width = layout.max_line_width or sys.maxsize
    groups = list(clauses(words, width, layout.max_line_count or sys.maxsize))
    starts_s = [event.start_s, *(group[0].start_s for group in groups[1:])]
    for group, (start_s, end_s) in zip(groups, pairwise([*starts_s, event.end_s]), strict=False):
        yield Cue(start_s, end_s, "\n".join(lines(group, width)), event.speaker)


def timed_words(event: Completed) -> list[Word]:
    """Words of a segment with times; where the engine knows none, they share the segment's."""
    shared = spread([word.text for word in event.words], event.start_s, event.end_s)
    timed = []
    for word, other in zip(event.words, shared, strict=True):
        if word.start_s is None or word.end_s is None:
            return shared
        timed.append(replace(other, start_s=word.start_s, end_s=word.end_s))
    return timed
