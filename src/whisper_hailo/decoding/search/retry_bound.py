"""What another search of a window may cost, and what its text has to beat.

A retry extends several hypotheses at each step, and its text may run to the limit of tokens:
without a bound, one doubtful window costs as much as ten others. So a retry has a number of rows to
spend, few in each step, and is abandoned without them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo.decoding.decoded import Decoded, cut_loop
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search.attempt_checks import repeats_itself
from whisper_hailo.decoding.search.attempt_choice import (
    COMPARABLE_LENGTH,
    hopeless_logprob,
)
from whisper_hailo.decoding.search.hypothesis import Hypothesis

SAMPLES_WIDTH: Final = 2
"""Samples that go on where they differ: of 524 recordings one has a text that was sampled."""

_SLACK: Final = 1.3
"""Times the expected tokens: better text may be longer, and a beam ends after its first end."""

_TOKENS_PER_SECOND: Final = 3.0
"""Of slow speech: a first text with fewer may lack a clause, which a retry may add."""

_DENSE_TOKENS_PER_SECOND: Final = 10.0
"""Of scripts such as Thai: a first text that ends in a loop does not tell how long it should be."""

_LEAST_TOKENS: Final = 10
"""Expected of any window: a first text of two words may be wrong about their number."""


@dataclass(frozen=True, slots=True)
class RetryBound:
    """The bound of one more search of a window.

    Attributes:
        n_tokens: expected length of its text.
        width: rows of a step.
        least_logprob: mean log-probability that its text has to reach.
    """

    n_tokens: int
    width: int
    least_logprob: float = -math.inf

    def excludes(self, hypothesis: Hypothesis, finished: Sequence[Hypothesis]) -> bool:
        """Return whether better text is known, however certain the rest of a hypothesis is.

        It may become as long as the expected text, or as the longest finished one.
        """
        least = self.least_logprob
        n_final = max(len(hypothesis.tokens), self.n_tokens)
        for other in finished:
            least = max(least, other.avg_logprob)
            n_final = max(n_final, len(other.tokens))
        return hypothesis.sum_logprob / (n_final + 1) < least


def bound_retry(
    attempts: Sequence[Decoded],
    content_s: float | None,
    thresholds: Thresholds,
    width: int,
) -> RetryBound | None:
    """Return the bound of the next search of a window; `None` of the first one."""
    if not attempts:
        return None
    n_tokens = _expect_tokens(attempts[0].tokens, content_s or 0.0)
    # A text that lacks a clause is likely, and no reason to give up a longer one.
    n_least = COMPARABLE_LENGTH * n_tokens
    least_logprob = hopeless_logprob(thresholds)
    for attempt in attempts:
        is_whole = len(attempt.tokens) >= n_least and not attempt.abandoned
        if is_whole and not repeats_itself(attempt, thresholds):
            least_logprob = max(least_logprob, attempt.avg_logprob)
    return RetryBound(n_tokens, width, least_logprob)


def _expect_tokens(first: Sequence[int], content_s: float) -> int:
    """Return how many tokens a window's text may have, by its first text."""
    n_calm = cut_loop(first)
    is_loop = n_calm < len(first)
    rate = _DENSE_TOKENS_PER_SECOND if is_loop else _TOKENS_PER_SECOND
    return max(n_calm, math.ceil(rate * content_s), _LEAST_TOKENS)


class RowBudget:
    """Rows that one retry may still pass through the decoder."""

    def __init__(self, bound: RetryBound) -> None:
        self._width = bound.width
        self._n_rows = round(_SLACK * bound.width * bound.n_tokens)

    def spend(self, n_rows: int) -> int:
        """Subtract the rows of a step; return how many the next one may have."""
        self._n_rows -= n_rows
        return max(0, min(self._width, self._n_rows))
