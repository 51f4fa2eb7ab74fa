"""Budget of a retry, and hypotheses that end early."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search.beam_search import BeamChoice
from whisper_hailo.decoding.search.hypothesis import Hypothesis
from whisper_hailo.decoding.search.retry_bound import (
    RetryBound,
    RowBudget,
    bound_retry,
)
from whisper_hailo.decoding.search.sampling import SampledChoice
from whisper_hailo.decoding.search.window_search import Choice

END = 9
"""End-of-transcript."""


def attempt(n_tokens: int, logprob: float) -> Decoded:
    return Decoded(tuple(range(n_tokens)), logprob, 0.1, runaway=False)


def test_bound_retry_of_the_first_search_is_none() -> None:
    assert bound_retry([], 10.0, Thresholds(), 2) is None


@pytest.mark.parametrize(
    ("first", "content_s", "n_tokens"),
    [(50, 10.0, 50), (20, 10.0, 30), (2, 1.0, 10), (2, None, 10)],
)
def test_bound_retry_expects_text_of_the_audio(
    first: int, content_s: float | None, n_tokens: int
) -> None:
    bound = bound_retry([attempt(first, -0.5)], content_s, Thresholds(), 2)
    assert bound is not None
    assert bound.n_tokens == n_tokens


@pytest.mark.parametrize(("content_s", "n_tokens"), [(2.0, 22), (9.9, 99)])
def test_bound_retry_of_a_loop_expects_dense_text(
    content_s: float, n_tokens: int
) -> None:
    loop = Decoded((*range(20), *(1, 2) * 60), -0.1, 0.1, runaway=True)
    bound = bound_retry([loop], content_s, Thresholds(), 2)
    assert bound is not None
    assert bound.n_tokens == n_tokens


def test_bound_retry_has_to_beat_the_best_whole_text() -> None:
    best = attempt(40, -0.6)
    others = [
        attempt(40, -0.9),
        attempt(12, -0.2),  # lacks a clause
        replace(attempt(40, -0.3), abandoned=True),
        replace(attempt(40, -0.1), compression_ratio=9.0),
    ]
    bound = bound_retry([best, *others], 10.0, Thresholds(), 2)
    assert bound == RetryBound(40, 2, -0.6)


@pytest.mark.parametrize(("logprob", "least"), [(-1.0, -1.5), (None, -math.inf)])
def test_bound_retry_without_whole_text_excludes_hopeless(
    logprob: float | None, least: float
) -> None:
    bound = bound_retry([attempt(12, -0.2)], 10.0, Thresholds(logprob=logprob), 3)
    assert bound == RetryBound(30, 3, least)


def test_bound_excludes_what_certainty_cannot_mend() -> None:
    """Bound with nine more certain tokens and the end: the mean of 20 is half of that of 10."""
    bound = RetryBound(19, 3, -0.5)
    near = Hypothesis((1,) * 10, -9.9)
    assert not bound.excludes(near, [])
    assert bound.excludes(replace(near, sum_logprob=-10.1), [])
    assert bound.excludes(near, [Hypothesis((1,) * 5, -0.6, done=True)])
    assert not bound.excludes(near, [Hypothesis((1,) * 29, -12.0, done=True)])


@pytest.mark.parametrize("width", [1, 2, 3])
def test_row_budget_ends_at_its_rows(width: int) -> None:
    budget = RowBudget(RetryBound(20, width))
    n_spent = 0
    allowed = 1  # the first step has one row, since all hypotheses are the same
    while allowed > 0:
        n_spent += allowed
        allowed = budget.spend(allowed)
        assert allowed <= width
    assert n_spent == pytest.approx(1.3 * 20 * width)


def run(choice: Choice, rng: np.random.Generator) -> int:
    """Extend hypotheses with even odds, and never to an end; return the rows that were passed."""
    n_rows = 0
    while running := choice.running:
        n_rows += len(running)
        ruled = []
        for _ in running:
            logits = rng.normal(0.0, 0.01, 10).astype(np.float32) - np.float32(2.3)
            logits[END] = -np.inf
            ruled.append(FilteredLogits(logits, 0.0, logits.copy()))
        choice.advance(ruled)
    return n_rows


def bounded_choice(kind: str, bound: RetryBound) -> Choice:
    if kind == "beam":
        return BeamChoice(END, 0.0, 5, 1.0, bound)
    seeds = [(seed,) for seed in range(5)]
    return SampledChoice(END, 0.0, 0.8, seeds, bound)


@pytest.mark.parametrize("kind", ["beam", "samples"])
def test_retry_spends_its_rows_and_is_abandoned(kind: str) -> None:
    choice = bounded_choice(kind, RetryBound(30, 3))
    n_rows = run(choice, np.random.default_rng(0))
    assert n_rows == pytest.approx(1.3 * 3 * 30)
    (result,) = choice.finish()
    assert result.abandoned


@pytest.mark.parametrize("kind", ["beam", "samples"])
def test_retry_that_cannot_win_stops_early(kind: str) -> None:
    """Each token has -2.3: a text of 30 with a mean of -0.5 has room for seven of them."""
    choice = bounded_choice(kind, RetryBound(30, 3, -0.5))
    n_rows = run(choice, np.random.default_rng(0))
    assert n_rows <= 3 * 7
    (result,) = choice.finish()
    assert result.abandoned


def test_samples_share_rows_while_they_agree() -> None:
    choice = SampledChoice(END, 0.0, 0.4, [(seed,) for seed in range(5)])
    certain = np.full(10, -60.0, np.float32)
    certain[3] = 0.0
    for _ in range(4):
        assert len(choice.running) == 1
        choice.advance([FilteredLogits(certain.copy(), 0.0, certain.copy())])
    assert [len(one.tokens) for one in choice.finish()] == [4] * 5
