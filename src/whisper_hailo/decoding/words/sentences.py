"""Segments that end with sentences, from words and their times.

Text decoded without timestamps comes as one stretch a window. Subtitles, JSON and Python callers
want shorter ones with the times of speech, and the same text whatever format is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from whisper_hailo.core.types import Segment, Word

_SENTENCE_ENDS: Final = (".", "?", "!", "。", "？", "！", "…")  # noqa: RUF001 - full-width marks
_CLAUSE_ENDS: Final = (",", ";", ":", "、", "，", "；", "：", "-", "—")  # noqa: RUF001
_CLOSING: Final = "\"'”’)]»」』"  # noqa: RUF001
_TITLES: Final = frozenset(
    {"mr.", "mrs.", "ms.", "dr.", "st.", "prof.", "no.", "vs.", "sr.", "jr."}
)

_PAUSE_S: Final = 1.5
"""A pause as long as this ends a segment, sentence or not."""

_LONGEST_S: Final = 10.0
"""Longer sentences are split at pauses to stay readable."""

_CLAUSE_WORTH_S: Final = 0.3
"""The end of a clause is as good a place as a pause of this length."""


def split_into_sentences(segment: Segment) -> list[Segment]:
    """Split a segment with words at sentence ends and pauses; without words it stays whole."""
    if not segment.words:
        return [segment]
    pieces = [piece for sentence in _sentences(segment.words) for piece in _split_long(sentence)]
    return [segment] if len(pieces) == 1 else [with_words(segment, piece) for piece in pieces]


def with_words(segment: Segment, words: Sequence[Word]) -> Segment:
    """Return the segment with some of its words, and their text, tokens and times."""
    return replace(
        segment,
        start_s=words[0].start_s,
        end_s=words[-1].end_s,
        text="".join(word.text for word in words).strip(),
        tokens=tuple(token for word in words for token in word.tokens),
        words=tuple(words),
    )


def _sentences(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    start = 0
    for index, (word, following) in enumerate(pairwise(words), start=1):
        pauses = following.start_s - word.end_s >= _PAUSE_S
        if pauses or (_ends_sentence(word.text) and not _continues(following.text)):
            yield words[start:index]
            start = index
    yield words[start:]


def _ends_sentence(text: str) -> bool:
    bare = text.strip().rstrip(_CLOSING)
    is_initial = len(bare) == len("A.") and bare[0].isupper()
    return bare.endswith(_SENTENCE_ENDS) and bare.casefold() not in _TITLES and not is_initial


def _continues(text: str) -> bool:
    """A sentence does not begin with a small letter or a digit behind a point."""
    first = text.strip()[:1]
    return first.islower() or first.isdigit()


def _split_long(words: Sequence[Word]) -> list[Sequence[Word]]:
    """Halve a stretch that is too long where it pauses, as near to its middle as that is."""
    start_s, end_s = words[0].start_s, words[-1].end_s
    if end_s - start_s <= _LONGEST_S or len(words) == 1:
        return [words]
    middle_s = (start_s + end_s) / 2

    def worth_s(index: int) -> float:
        before, after = words[index - 1], words[index]
        pause_s = after.start_s - before.end_s
        clause_s = _CLAUSE_WORTH_S if before.text.rstrip(_CLOSING).endswith(_CLAUSE_ENDS) else 0.0
        return pause_s + clause_s - abs(after.start_s - middle_s) / _LONGEST_S

    cut = max(range(1, len(words)), key=worth_s)
    return [*_split_long(words[:cut]), *_split_long(words[cut:])]
