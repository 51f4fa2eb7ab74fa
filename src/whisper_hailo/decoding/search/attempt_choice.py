"""Which attempt is taken as the text of a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from whisper_hailo.decoding.decoded import Decoded, compression_ratio, cut_loop
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search.attempt_checks import is_doubtful, repeats_itself
from whisper_hailo.text.tokenizer import Tokenizer

COMPARABLE_LENGTH: Final = 0.9
"""Share of the longest attempt's tokens that another one needs to compete."""

_HOPELESS: Final = 1.5
"""Times the threshold: text this unlikely after every attempt was made up."""

_LEAST_CALM: Final = 24
"""Tokens before a loop that are a text of their own: a few syllables are made up like the loop."""


def choose_attempt(attempts: Sequence[Decoded], thresholds: Thresholds) -> Decoded:
    """Return the likeliest attempt that passed, or one that does not repeat itself.

    A text much shorter than another one left a clause out, which makes it likelier. Where every
    attempt ran into a loop, or none is anywhere near likely, the text is made up. A text that
    repeats itself and ends may be a menu or a song. The first attempt is never abandoned.
    """
    whole = [attempt for attempt in attempts if not attempt.abandoned]
    passed = [attempt for attempt in whole if not is_doubtful(attempt, thresholds)]
    calm = [attempt for attempt in whole if not repeats_itself(attempt, thresholds)]
    ended = [attempt for attempt in whole if not attempt.runaway]
    chosen = _likeliest(passed or calm or ended or whole)
    # A caller that gives one temperature wants its text.
    if passed or len(attempts) == 1:
        return chosen
    is_loop = not calm and not ended
    is_hopeless = chosen.avg_logprob < hopeless_logprob(thresholds)
    return replace(chosen, made_up=is_loop or is_hopeless)


def hopeless_logprob(thresholds: Thresholds) -> float:
    """Return the mean log-probability below which text was made up."""
    if thresholds.logprob is None:
        return -math.inf
    return _HOPELESS * thresholds.logprob


def choose_or_cut(
    attempts: Sequence[Decoded], tokenizer: Tokenizer, thresholds: Thresholds
) -> Decoded:
    """Return the attempt that is taken; where all are made up, a text that ends before its loop."""
    chosen = choose_attempt(attempts, thresholds)
    if not chosen.made_up or len(attempts) == 1:
        return chosen
    calm: list[Decoded] = []
    for attempt in attempts:
        shorter = _cut_at_loop(attempt, tokenizer)
        if shorter is not None and not is_doubtful(shorter, thresholds):
            calm.append(shorter)
    return _likeliest(calm) if calm else chosen


def _cut_at_loop(decoded: Decoded, tokenizer: Tokenizer) -> Decoded | None:
    """Return a text up to the loop that it ends in; `None` if it has none, or little else.

    The loop's tokens are at most certain, so what they add to the mean counts against the rest.
    """
    n_calm = cut_loop(decoded.tokens)
    n_tokens = len(decoded.tokens)
    if not decoded.runaway or n_calm == n_tokens or n_calm < _LEAST_CALM:
        return None
    sum_logprob = decoded.avg_logprob * (n_tokens + 1)
    shorter = replace(
        decoded, tokens=decoded.tokens[:n_calm], avg_logprob=sum_logprob / (n_calm + 1)
    )
    return with_compression_ratio(shorter, tokenizer)


def _likeliest(attempts: Sequence[Decoded]) -> Decoded:
    """Return the likeliest of the attempts that leave out no words."""
    n_longest = max(len(attempt.tokens) for attempt in attempts)
    n_least = COMPARABLE_LENGTH * n_longest
    complete = [attempt for attempt in attempts if len(attempt.tokens) >= n_least]
    return max(complete, key=lambda attempt: attempt.avg_logprob)


def with_compression_ratio(decoded: Decoded, tokenizer: Tokenizer) -> Decoded:
    """Return the tokens with the compression ratio of their text."""
    text = tokenizer.decode(decoded.tokens).strip()
    return replace(decoded, compression_ratio=compression_ratio(text))
