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
            words[-1] = (words[-1][0] + text, (*words[-1][1], *ids))
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
        at = text.find(_REPLACEMENT)
        # A replacement character that is there in the whole text as well was meant.
        meant = offset + at < len(whole) and whole[offset + at] == _REPLACEMENT
        if at < 0 or meant:
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
    after = len(joined) - 1
    for before in range(len(joined) - 2, -1, -1):
        first, second = joined[before], joined[after]
        if first.text.startswith(" ") and first.text.strip() in prepended:
            joined[after] = replace(
                second, text=first.text + second.text, tokens=first.tokens + second.tokens
            )
            joined[before] = replace(first, text="", tokens=())
        else:
            after = before
    before = 0
    for after in range(1, len(joined)):
        first, second = joined[before], joined[after]
        if not first.text.endswith(" ") and second.text in appended:
            joined[before] = replace(
                first, text=first.text + second.text, tokens=first.tokens + second.tokens
            )
            joined[after] = replace(second, text="", tokens=())
        else:
            before = after
    return joined


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
    pieces = [
        piece for sentence in _split_sentences(segment.words) for piece in _split_long(sentence)
    ]
    return [segment] if len(pieces) == 1 else [with_words(segment, piece) for piece in pieces]


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
    start = 0
    for index, (word, following) in enumerate(pairwise(words), start=1):
        pauses = following.start_s - word.end_s >= _PAUSE_S
        if pauses or (ends_sentence(word.text) and not _cannot_begin(following.text)):
            yield words[start:index]
            start = index
    yield words[start:]


def ends_sentence(text: str) -> bool:
    """Return whether a word or text ends with a sentence's mark, not that of a title or initial."""
    bare = text.strip().rstrip(_CLOSING)
    is_initial = len(bare) == len("A.") and bare[0].isupper()
    return bare.endswith(_SENTENCE_ENDS) and bare.casefold() not in _TITLES and not is_initial


def _cannot_begin(text: str) -> bool:
    """Return whether a word cannot start a sentence: small letter, or a digit after a point."""
    first = text.strip()[:1]
    return first.islower() or first.isdigit()


def _split_long(words: Sequence[Word]) -> list[Sequence[Word]]:
    """Split a long stretch at the best pause, as near to its middle as possible."""
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
