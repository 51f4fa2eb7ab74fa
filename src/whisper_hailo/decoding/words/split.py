"""Tokens grouped into words, with the punctuation that belongs to them."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES, Word
from whisper_hailo.text.tokenizer import Tokenizer

_REPLACEMENT: Final = "\ufffd"


def split_words(
    tokenizer: Tokenizer, tokens: Sequence[int], language: str
) -> list[tuple[str, tuple[int, ...]]]:
    """Texts and ids of the words.

    Args:
        tokenizer: of the model.
        tokens: text ids, without timestamps.
        language: languages written without blanks are split at every character.

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
    """Shortest runs of tokens that end where a character of UTF-8 ends."""
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


def join_punctuation(words: Sequence[Word], prepended: str, appended: str) -> list[Word]:
    """Opening marks go to the word after them, closing ones to the word before.

    Args:
        words: in order.
        prepended: marks that open.
        appended: marks that close.

    Returns:
        as many words; those that were joined to another have neither text nor tokens.

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
