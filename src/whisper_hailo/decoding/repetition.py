"""Signs in a text itself that it was made up: loops, and the prompt said again."""

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
"""A phrase that comes seven times in a row, or for 24 tokens, is a loop and no speech."""

_LONGEST_ECHO: Final = 5


def ends_in_loop(tokens: Sequence[int]) -> bool:
    """Return whether the last tokens are one phrase of up to 12 tokens, over and over."""
    return _loop_period(tokens) is not None


def cut_loop(tokens: Sequence[int]) -> int:
    """Return how many tokens to keep so that a phrase at the end comes once; all without a loop."""
    period = _loop_period(tokens)
    if period is None:
        return len(tokens)
    start = len(tokens) - period
    while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
        start -= 1
    return start + period


def _loop_period(tokens: Sequence[int]) -> int | None:
    for period in range(1, _LONGEST_PHRASE + 1):
        n = max(_REPEATS * period, _LEAST_LOOP)
        if len(tokens) < n + period:
            return None
        if tokens[-n:] == tokens[-n - period : -period]:
            return period
    return None


def repeats_prompt(tokens: Sequence[int], prompt: Sequence[int]) -> bool:
    """Return whether a text contains more than five tokens in a row of what it was shown.

    Args:
        tokens: generated ids without timestamps.
        prompt: ids of the text shown before it.
    """
    n = _LONGEST_ECHO + 1
    shown = {tuple(prompt[start : start + n]) for start in range(len(prompt) - n + 1)}
    return any(tuple(tokens[start : start + n]) in shown for start in range(len(tokens) - n + 1))


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
