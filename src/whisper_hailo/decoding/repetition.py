"""Signs of made-up text: loops, a repeated prompt, high compression."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

LOOP_CHECK_TOKENS: Final = 16
"""Searches check for loops at this interval."""

_BYTE_VALUES: Final = 256

_LONGEST_PHRASE: Final = 12
_LEAST_LOOP: Final = 24
_REPEATS: Final = 6
"""A phrase repeated seven times, or for 24 tokens, is a loop."""

_LONGEST_ECHO: Final = 5


def ends_in_loop(tokens: Sequence[int]) -> bool:
    """Return whether the last tokens repeat one phrase of up to 12 tokens."""
    return _loop_period(tokens) is not None


def cut_loop(tokens: Sequence[int]) -> int:
    """Return how many tokens to keep so that a phrase that loops at the end comes once."""
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
    """Return whether text ids repeat more than five tokens in a row of their prompt."""
    n = _LONGEST_ECHO + 1
    shown = {tuple(prompt[start : start + n]) for start in range(len(prompt) - n + 1)}
    return any(tuple(tokens[start : start + n]) in shown for start in range(len(tokens) - n + 1))


def compression_ratio(text: str) -> float:
    """Return bytes by zlib bytes: text that repeats itself compresses well.

    Letters beyond ASCII count as one byte each, up to 256 different ones: in UTF-8, Cyrillic text
    compresses so well that a telephone menu looks like a loop.

    Source: OpenAI Whisper, on UTF-8, where a ratio above 2.4 marks a repetition.
    """
    letters = {letter: index for index, letter in enumerate(dict.fromkeys(text))}
    if text.isascii() or len(letters) > _BYTE_VALUES:
        raw = text.encode("utf-8")
    else:
        raw = bytes(letters[letter] for letter in text)
    return len(raw) / len(zlib.compress(raw))
