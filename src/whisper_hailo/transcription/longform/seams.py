"""Sentences that go on over the seam of two windows: each is joined to one segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES, Segment, Word
from whisper_hailo.decoding.words import cannot_begin, ends_sentence, with_words

_LONGEST_S: Final = 20.0
"""As long as a segment of one default window may be."""

_PAUSE_S: Final = 1.0
"""A longer pause between two segments parts them, whatever their text says."""


@dataclass(slots=True)
class SentenceJoiner:
    """Holds the end of a window's text back while its sentence goes on in the next window.

    Attributes:
        open: the segment that is held back.
    """

    open: Segment | None = field(default=None, init=False)

    def take(
        self, final: Sequence[Segment], following: Segment | None, *, overlaps: bool
    ) -> list[Segment]:
        """Return the segments of a window that are whole sentences now.

        `following` is the first segment of the next window, which may share audio with this one.
        """
        segments = list(final)
        if self.open is not None:
            segments[:1] = _join(self.open, segments[:1])
            self.open = None
        if segments and following is not None:
            last = segments.pop()
            ended, unfinished = _split_unfinished(last)
            if unfinished is not None and _goes_on(unfinished, following, overlaps):
                self.open = unfinished
                segments += ended
            else:
                segments.append(last)
        return segments


def _goes_on(segment: Segment, following: Segment, overlaps: bool) -> bool:
    """Return whether a sentence goes on in the segment after it.

    Where windows overlap, every sentence that has not ended goes on. Behind a pause, a small
    letter or a digit says so, or a text that does not even end with a comma. A window that ends
    within a sentence often has a full stop there.
    """
    if segment.language != following.language:
        return False
    if following.start_s - segment.end_s > _PAUSE_S:
        return False
    if ends_sentence(segment.text):
        return following.text[:1].islower()
    if overlaps or cannot_begin(following.text):
        return True
    # Languages without blanks are often written without marks, too.
    has_marks = segment.language not in UNSPACED_LANGUAGES
    return has_marks and segment.text[-1:].isalnum()


def _split_unfinished(segment: Segment) -> tuple[list[Segment], Segment | None]:
    """Return the whole sentences of a segment, and the one that may go on."""
    words = segment.words
    start = 0
    for index, (word, following) in enumerate(pairwise(words), start=1):
        if ends_sentence(word.text) and not cannot_begin(following.text):
            start = index
    if start == 0:
        return [], segment
    return [with_words(segment, words[:start])], with_words(segment, words[start:])


def _join(first: Segment, rest_of_text: Sequence[Segment]) -> list[Segment]:
    """Return a segment and the one after it as one, or as they are if that is too long.

    Of a long second one only the rest of the sentence is joined, where its words are known.
    """
    if not rest_of_text:  # the window after it took all of this one's words
        return [first]
    (second,) = rest_of_text
    if second.end_s - first.start_s <= _LONGEST_S:
        return [_concatenate(first, second)]
    end = _find_sentence_end(second.words)
    if not end or second.words[end - 1].end_s - first.start_s > _LONGEST_S:
        return [first, second]
    rest = with_words(second, second.words[:end])
    return [_concatenate(first, rest), with_words(second, second.words[end:])]


def _find_sentence_end(words: Sequence[Word]) -> int:
    """Return the number of words up to the first end of a sentence before the last word, or 0."""
    for index, (word, following) in enumerate(pairwise(words), start=1):
        if ends_sentence(word.text) and not cannot_begin(following.text):
            return index
    return 0


def _concatenate(first: Segment, second: Segment) -> Segment:
    """Return two segments as one, with what is known of the first one's window."""
    are_timed = bool(first.words and second.words)
    words = (*first.words, *second.words) if are_timed else ()
    is_spaced = first.language not in UNSPACED_LANGUAGES
    if second.words:  # else they are parted by a pause
        is_spaced = second.words[0].text.startswith(" ")
    blank = " " if is_spaced else ""
    return replace(
        first,
        end_s=second.end_s,
        text=first.text + blank + second.text,
        tokens=first.tokens + second.tokens,
        words=words,
    )
