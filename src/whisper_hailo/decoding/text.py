"""What a text itself tells about whether it was made up."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

LOOP_CHECK_TOKENS: Final = 16
"""A search looks for loops each time that so many tokens have come."""

_BYTE_VALUES: Final = 256

_LONGEST_PHRASE: Final = 12
_LEAST_LOOP: Final = 24
_REPEATS: Final = 6
"""Nobody says a phrase seven times in a row, nor anything for 24 tokens."""


def ends_in_loop(tokens: Sequence[int]) -> bool:
    """Return whether the last tokens are one phrase of up to 12 tokens, over and over."""
    for period in range(1, _LONGEST_PHRASE + 1):
        n = max(_REPEATS * period, _LEAST_LOOP)
        if len(tokens) < n + period:
            return False
        if tokens[-n:] == tokens[-n - period : -period]:
            return True
    return False


def compression_ratio(text: str) -> float:
    """Return bytes by zlib bytes: text that repeats itself compresses well.

    Letters beyond ASCII count as one byte each, as far as 256 reach: in UTF-8 half of the bytes of
    Cyrillic text say no more than that, and a telephone menu is taken for a loop.

    Source: OpenAI Whisper, on UTF-8, where a ratio above 2.4 marks a repetition.
    """
    letters = {letter: index for index, letter in enumerate(dict.fromkeys(text))}
    if text.isascii() or len(letters) > _BYTE_VALUES:
        raw = text.encode("utf-8")
    else:
        raw = bytes(letters[letter] for letter in text)
    return len(raw) / len(zlib.compress(raw))
