"""Groups of decoding options, each validated once; `options.DecodingOptions` holds one of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.errors import OptionError

OPENAI_TEMPERATURES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""OpenAI Whisper's schedule: greedy or beam first, then hotter and hotter sampling."""

FALLBACK_STEP: Final = 0.2
"""By how much each try is hotter than the one before in that schedule."""

PREPENDED: Final = "\"'“¿([{-"
"""Punctuation that belongs to the word after it, as OpenAI Whisper's command line has it."""

APPENDED: Final = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 - full-width marks are meant
"""Punctuation that belongs to the word before it."""

_MOST_HYPOTHESES: Final = 64
"""Each is a row of the decoder's batch; more is a slip of the keyboard."""


def expect(fits: bool, option: str, value: object, expected: str) -> None:
    """Refuse an option's value.

    Raises:
        OptionError: it does not fit.
    """
    if not fits:
        raise OptionError(f"{option} is {value}, expected {expected}")


@dataclass(frozen=True, slots=True)
class Search:
    """How tokens are chosen and how often it is tried again.

    Attributes:
        temperatures: tried in order until the text passes the gates; 0 is greedy or beam search,
            above 0 tokens are sampled.
        beam_size: hypotheses of the beam search at temperature 0; 1 is greedy.
        patience: the beam search ends with `beam_size * patience` finished hypotheses.
        length_penalty: alpha of Google's NMT ranking; `None` ranks by mean log-probability.
        best_of: hypotheses sampled at temperatures above 0, of which the best is kept.
        seed: of the sampling; same seed, same text.

    Raises:
        OptionError: a value out of range.
    """

    temperatures: tuple[float, ...] = (0.0,)
    beam_size: int = 1
    patience: float = 1.0
    length_penalty: float | None = None
    best_of: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = [f"{t:g}" for t in self.temperatures if not 0.0 <= t <= 2.0]
        shown = ", ".join(wrong) or "empty"
        fits = bool(self.temperatures) and not wrong
        expect(fits, "--temperature", shown, "numbers from 0 to 2")
        hypotheses = f"1 to {_MOST_HYPOTHESES} hypotheses"
        expect(1 <= self.beam_size <= _MOST_HYPOTHESES, "--beam-size", self.beam_size, hypotheses)
        expect(1 <= self.best_of <= _MOST_HYPOTHESES, "--best-of", self.best_of, hypotheses)
        expect(
            0.0 < self.patience <= 100.0, "--patience", self.patience, "more than 0, at most 100"
        )
        alpha = self.length_penalty
        expect(alpha is None or 0.0 <= alpha <= 1.0, "--length-penalty", alpha, "0 to 1")
        expect(self.seed >= 0, "--seed", self.seed, "0 or more")

    @property
    def name(self) -> str:
        """`greedy`, `beam 5` and so on, with the schedule where there is one; for results."""
        first = self.temperatures[0]
        if first > 0:
            name = f"best of {self.best_of} at {first:g}"
        else:
            name = "greedy" if self.beam_size == 1 else f"beam {self.beam_size}"
        later = ", ".join(f"{t:g}" for t in self.temperatures[1:])
        return f"{name}, then {later}" if later else name


@dataclass(frozen=True, slots=True)
class Gates:
    """When a window's text is not believed. `None` switches a gate off.

    Attributes:
        no_speech: above this probability a window is silent, unless its text is likely.
        logprob: mean log-probability above which text is likely; below it is tried again.
        compression_ratio: text that compresses better repeats itself and is tried again.

    Source: OpenAI Whisper, with its defaults.

    Raises:
        OptionError: a value that is no number.
    """

    no_speech: float | None = 0.6
    logprob: float | None = -1.0
    compression_ratio: float | None = 2.4

    def __post_init__(self) -> None:
        for option, value in (
            ("--no-speech-threshold", self.no_speech),
            ("--logprob-threshold", self.logprob),
            ("--compression-ratio-threshold", self.compression_ratio),
        ):
            expect(value is None or math.isfinite(value), option, value, "a number")


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Tokens that are never taken, and how many there may be.

    Attributes:
        suppress: ids never taken, beside control tokens; `None` is the checkpoint's own list.
        suppress_blank: the checkpoint's `begin_suppress_tokens` are never taken first.
        no_repeat_ngram: no run of so many tokens comes twice in a window; 0 is off.
        max_per_second: most tokens per second of a window's audio; `None` is off.

    Raises:
        OptionError: a value out of range.
    """

    suppress: tuple[int, ...] | None = None
    suppress_blank: bool = True
    no_repeat_ngram: int = 0
    max_per_second: float | None = None

    def __post_init__(self) -> None:
        n, rate = self.no_repeat_ngram, self.max_per_second
        expect(n >= 0, "--no-repeat-ngram", n, "0 (off) or a number of tokens")
        fits = rate is None or (math.isfinite(rate) and rate > 0)
        expect(fits, "--max-tokens-per-second", rate, "more than 0")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Text that the decoder is shown before it writes its own.

    Attributes:
        initial_prompt: as if it had been said before the recording.
        prefix: begins the text of the first window.
        hotwords: words to expect, shown in every window.
        condition_on_previous_text: show each window the text of the one before.
        carry_initial_prompt: show the initial prompt in every window.

    Raises:
        OptionError: a text that is blank.
    """

    initial_prompt: str | None = None
    prefix: str | None = None
    hotwords: str | None = None
    condition_on_previous_text: bool = False
    carry_initial_prompt: bool = False

    def __post_init__(self) -> None:
        for option, text in (
            ("--initial-prompt", self.initial_prompt),
            ("--prefix", self.prefix),
            ("--hotwords", self.hotwords),
        ):
            expect(text is None or bool(text.strip()), option, "blank", "some text")


@dataclass(frozen=True, slots=True)
class WordOptions:
    """Times of words.

    Attributes:
        prepended: punctuation that is joined to the word after it.
        appended: punctuation that is joined to the word before it.
        hallucination_silence_s: text that looks made up and stands beside a silence longer than
            this is dropped; `None` is off.

    Raises:
        OptionError: a silence that is not positive.
    """

    prepended: str = PREPENDED
    appended: str = APPENDED
    hallucination_silence_s: float | None = None

    def __post_init__(self) -> None:
        silence_s = self.hallucination_silence_s
        fits = silence_s is None or (math.isfinite(silence_s) and silence_s > 0)
        expect(fits, "--hallucination-silence", silence_s, "seconds, more than 0")
