"""Text in paragraphs, which end at pauses between sentences and where the speaker changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES, Segment
from whisper_hailo.text.break_points import (
    SENTENCE,
    display_width,
    find_break_cost,
    is_latin,
)
from whisper_hailo.text.function_words import NO_FUNCTION_WORDS
from whisper_hailo.text.subtitles import speaker_label

_LONG_PAUSE_S: Final = 3.0
"""Always ends a paragraph. People who read out loud pause for up to 2.8 s between sentences."""

_PAUSE_S: Final = 0.8
"""Between sentences, speakers mostly pause for less than this, and for more between topics."""

_SHORT_WIDTH: Final = 300
"""Columns of about three sentences: below that only a long pause ends a paragraph."""

_LONG_WIDTH: Final = 700
"""Columns of about eight sentences: from here on any sentence ends a paragraph."""

_LONGEST_WIDTH: Final = 1400
"""Text without full stops, as of small models in Chinese, ends here with its segment."""


class ParagraphWriter:
    """Joins segments to paragraphs while they come; an empty line separates them."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._width = 0
        self._is_first = True

    def write(self, segment: Segment) -> Iterator[str]:
        """Yield the paragraph that ends before this segment, if one does."""
        if not segment.text:
            return
        if self._segments and self._ends_before(segment):
            yield self._take_paragraph()
        self._segments.append(segment)
        self._width += display_width(segment.text) + 1

    def finish(self) -> Iterator[str]:
        """Yield the last paragraph, if there is one."""
        if self._segments:
            yield self._take_paragraph()

    def _ends_before(self, segment: Segment) -> bool:
        last = self._segments[-1]
        if segment.speaker != last.speaker or segment.language != last.language:
            return True
        pause_s = segment.start_s - last.end_s
        if pause_s >= _LONG_PAUSE_S or self._width >= _LONGEST_WIDTH:
            return True
        cost = find_break_cost(last.text, segment.text, NO_FUNCTION_WORDS)
        # Without punctuation pauses alone tell where a thought ends.
        is_sentence = cost == SENTENCE or last.language in UNSPACED_LANGUAGES
        if self._width >= _LONG_WIDTH:
            return cost == SENTENCE or (is_sentence and pause_s >= _PAUSE_S)
        return self._width >= _SHORT_WIDTH and is_sentence and pause_s >= _PAUSE_S

    def _take_paragraph(self) -> str:
        """Return the paragraph of the segments so far; an empty line parts it from the last."""
        text = "".join(
            _blank_before(segment) + segment.text for segment in self._segments
        ).strip()
        label = speaker_label(self._segments[0].speaker)
        gap = "" if self._is_first else "\n"
        self._segments = []
        self._width = 0
        self._is_first = False
        return f"{gap}{label}{text}\n"


def _blank_before(segment: Segment) -> str:
    """Return what separates a segment from the one before it."""
    is_unspaced = segment.language in UNSPACED_LANGUAGES and not is_latin(segment.text)
    return "" if is_unspaced else " "
