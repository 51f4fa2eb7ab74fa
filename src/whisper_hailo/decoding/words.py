"""Tokens grouped into words, and words into sentences."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES, Segment, Word
from whisper_hailo.text.tokenizer import Tokenizer

_REPLACEMENT: Final = "\ufffd"


def split_words(
    tokenizer: Tokenizer, tokens: Sequence[int], language: str
) -> list[tuple[str, tuple[int, ...]]]:
    """Return texts and ids of the words; unspaced languages are split at every character.

    Source: OpenAI Whisper, `split_to_word_tokens`.
    """
    pieces = _whole_characters(tokenizer, tokens)
    if language in UNSPACED_LANGUAGES:
        return pieces
    words: list[tuple[str, tuple[int, ...]]] = []
    for text, ids in pieces:
        is_mark = text.strip() in string.punctuation
        if not words or text.startswith(" ") or is_mark:
            words.append((text, ids))
        else:
            word_text, word_ids = words[-1]
            words[-1] = (word_text + text, (*word_ids, *ids))
    return words


def _whole_characters(
    tokenizer: Tokenizer, tokens: Sequence[int]
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the shortest runs of tokens that end with a whole UTF-8 character."""
    whole = tokenizer.decode(tokens)
    pieces: list[tuple[str, tuple[int, ...]]] = []
    current: list[int] = []
    offset = 0
    for token in tokens:
        current.append(token)
        text = tokenizer.decode(current)
        index = text.find(_REPLACEMENT)
        # A replacement character that is there in the whole text as well was meant.
        is_meant = whole[offset + index : offset + index + 1] == _REPLACEMENT
        if index < 0 or is_meant:
            pieces.append((text, tuple(current)))
            offset += len(text)
            current = []
    if current:
        pieces.append((tokenizer.decode(current), tuple(current)))
    return pieces


PREPENDED: Final = "\"'“¿([{-"
"""Punctuation that joins the next word, as in OpenAI Whisper's command line."""

APPENDED: Final = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 - full-width marks are meant
"""Punctuation that joins the previous word."""


def join_punctuation(
    words: Sequence[Word], prepended: str = PREPENDED, appended: str = APPENDED
) -> list[Word]:
    """Join opening marks to the next word and closing ones to the previous word.

    As many words are returned; those that were joined have neither text nor tokens.

    Source: OpenAI Whisper, `merge_punctuations`: times and probability stay those of the word.
    """
    joined = list(words)
    following = len(joined) - 1
    for index in range(len(joined) - 2, -1, -1):
        mark = joined[index]
        if mark.text.startswith(" ") and mark.text.strip() in prepended:
            word = joined[following]
            joined[following] = _add_text(word, mark, word)
            joined[index] = replace(mark, text="", tokens=())
        else:
            following = index
    previous = 0
    for index in range(1, len(joined)):
        mark = joined[index]
        word = joined[previous]
        if not word.text.endswith(" ") and mark.text in appended:
            joined[previous] = _add_text(word, word, mark)
            joined[index] = replace(mark, text="", tokens=())
        else:
            previous = index
    return joined


def _add_text(word: Word, first: Word, second: Word) -> Word:
    """Return a word with the text and tokens of two."""
    return replace(
        word, text=first.text + second.text, tokens=first.tokens + second.tokens
    )


_SENTENCE_ENDS: Final = (".", "?", "!", "。", "？", "！", "…")  # noqa: RUF001 - full-width marks
_CLAUSE_ENDS: Final = (",", ";", ":", "、", "，", "；", "：", "-", "—")  # noqa: RUF001
_CLOSING: Final = "\"'”’)]»」』"  # noqa: RUF001
_TITLES: Final = frozenset(
    {"mr.", "mrs.", "ms.", "dr.", "st.", "prof.", "no.", "vs.", "sr.", "jr."}
)

_PAUSE_S: Final = 1.5
"""A pause as long as this ends a segment."""

_LONGEST_S: Final = 10.0
"""Longer sentences are split at pauses to stay readable."""

_CLAUSE_WORTH_S: Final = 0.3
"""A clause's end counts as a pause of this length."""


def split_into_sentences(segment: Segment) -> list[Segment]:
    """Split a segment with words at sentence ends and pauses; without words it stays whole."""
    if not segment.words:
        return [segment]
    pieces: list[Sequence[Word]] = []
    for sentence in _split_sentences(segment.words):
        pieces += _split_long(sentence)
    if len(pieces) == 1:
        return [segment]
    return [with_words(segment, piece) for piece in pieces]


def with_words(segment: Segment, words: Sequence[Word]) -> Segment:
    """Return the segment reduced to some of its words."""
    return replace(
        segment,
        start_s=words[0].start_s,
        end_s=words[-1].end_s,
        text="".join(word.text for word in words).strip(),
        tokens=tuple(token for word in words for token in word.tokens),
        words=tuple(words),
    )


def _split_sentences(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the runs of words between sentence ends and pauses."""
    start = 0
    for index, (word, following) in enumerate(pairwise(words), start=1):
        is_pause = following.start_s - word.end_s >= _PAUSE_S
        is_end = ends_sentence(word.text) and not cannot_begin(following.text)
        if is_pause or is_end:
            yield words[start:index]
            start = index
    yield words[start:]


def ends_sentence(text: str) -> bool:
    """Return whether a word or text ends with a sentence's mark, not that of a title or initial."""
    bare = text.strip().rstrip(_CLOSING)
    is_initial = len(bare) == len("A.") and bare[0].isupper()
    return (
        bare.endswith(_SENTENCE_ENDS)
        and bare.casefold() not in _TITLES
        and not is_initial
    )


def cannot_begin(text: str) -> bool:
    """Return whether a word cannot start a sentence: small letter, or a digit after a point."""
    first = text.strip()[:1]
    return first.islower() or first.isdigit()


def _split_long(words: Sequence[Word]) -> list[Sequence[Word]]:
    """Split a long stretch at the best pause, as near to its middle as possible."""
    start_s = words[0].start_s
    end_s = words[-1].end_s
    if end_s - start_s <= _LONGEST_S or len(words) == 1:
        return [words]
    middle_s = (start_s + end_s) / 2

    def worth_s(index: int) -> float:
        return _worth_of_cut(words[index - 1], words[index], middle_s)

    cut = max(range(1, len(words)), key=worth_s)
    return _split_long(words[:cut]) + _split_long(words[cut:])


def _worth_of_cut(before: Word, after: Word, middle_s: float) -> float:
    """Return what a cut between two words is worth, in seconds of pause."""
    worth_s = after.start_s - before.end_s
    if before.text.rstrip(_CLOSING).endswith(_CLAUSE_ENDS):
        worth_s += _CLAUSE_WORTH_S
    return worth_s - abs(after.start_s - middle_s) / _LONGEST_S
