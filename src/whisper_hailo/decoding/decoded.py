"""The decoded tokens of a window, and signs of silence, of loops and of a repeated prompt."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo.decoding.options import Thresholds

LOOP_CHECK_TOKENS: Final = 16
"""Searches check for loops at this interval."""

_BYTE_VALUES: Final = 256

_LONGEST_PHRASE: Final = 12
_LEAST_LOOP: Final = 24
_REPEATS: Final = 6
"""A phrase of up to 12 tokens that comes seven times, or 24 tokens long, is a loop."""

_LONGEST_ECHO: Final = 5
"""Tokens in a row that text and its prompt may share: names and set phrases come again."""


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
        n_repeated = max(_REPEATS * period, _LEAST_LOOP)
        if len(tokens) < n_repeated + period:  # too few for any longer phrase, too
            return None
        if tokens[-n_repeated:] == tokens[-n_repeated - period : -period]:
            return period
    return None


def repeats_prompt(tokens: Sequence[int], prompt: Sequence[int]) -> bool:
    """Return whether text ids repeat more than five tokens in a row of their prompt."""
    n = _LONGEST_ECHO + 1
    return not _runs(tokens, n).isdisjoint(_runs(prompt, n))


def _runs(tokens: Sequence[int], n: int) -> set[tuple[int, ...]]:
    """Return all runs of `n` tokens."""
    return {tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)}


def compression_ratio(text: str) -> float:
    """Return bytes by zlib bytes: text that repeats itself compresses well.

    Letters beyond ASCII count as one byte each, up to 256 different ones: in UTF-8, Cyrillic text
    compresses so well that a telephone menu looks like a loop.

    Source: OpenAI Whisper, on UTF-8, where a ratio above 2.4 marks a repetition.
    """
    raw = _bytes_of_letters(text)
    return len(raw) / len(zlib.compress(raw))


def _bytes_of_letters(text: str) -> bytes:
    """Return a byte a letter where there are few enough different ones, else UTF-8."""
    distinct = dict.fromkeys(text)
    if text.isascii() or len(distinct) > _BYTE_VALUES:
        return text.encode("utf-8")
    numbers = {letter: number for number, letter in enumerate(distinct)}
    return bytes(numbers[letter] for letter in text)


@dataclass(frozen=True, slots=True)
class Drafted:
    """The result of decoding with a draft.

    Attributes:
        probabilities: of each token among those allowed at its step; 1 for settled tokens.
        n_fixed: settled tokens, which were not decoded.
        n_passes: decoder passes.
        guess: ids that were held back; they end the draft of the next buffer.
    """

    probabilities: tuple[float, ...]
    n_fixed: int
    n_passes: int
    guess: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """The tokens of one window.

    Attributes:
        tokens: generated ids, without the prefix and end-of-transcript.
        avg_logprob: mean natural-log probability of the ids among those allowed at their step,
            end-of-transcript counted, before any repetition penalty.
        no_speech_prob: of the no-speech id at start-of-transcript; 0 for models without one.
        runaway: the budget was used up without an end-of-transcript.
        temperature: of the search that found them.
        compression_ratio: of the text; 0 without text.
        ends_at_once: end-of-transcript was the likeliest first id before any rule.
        made_up: every attempt failed, and none resembles speech.
        drafted: result of the draft, if there was one.
        abandoned: a retry without text: it got too expensive, or better text is known.
    """

    tokens: tuple[int, ...]
    avg_logprob: float
    no_speech_prob: float
    runaway: bool
    temperature: float = 0.0
    compression_ratio: float = 0.0
    ends_at_once: bool = False
    made_up: bool = False
    drafted: Drafted | None = None
    abandoned: bool = False

    def is_silence(self, thresholds: Thresholds) -> bool:
        """Return whether the window holds no speech, so that its tokens are made up.

        Rules forbid Whisper to start with end-of-transcript, so it writes something even for
        silence, and a small model does so with confidence. Its unrestricted first choice shows it.

        Source: OpenAI Whisper's `no_speech_threshold`, `logprob_threshold`; `ends_at_once` is ours.
        """
        if self.made_up:
            return True
        if thresholds.no_speech is None or self.no_speech_prob <= thresholds.no_speech:
            return False
        is_unlikely = (
            thresholds.logprob is None or self.avg_logprob <= thresholds.logprob
        )
        return self.ends_at_once or is_unlikely
