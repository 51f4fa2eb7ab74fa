"""Which hypothesis is the best, and when another nearly was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisper_hailo.decoding.search.hypothesis import Hypothesis
from whisper_hailo.decoding.search.ranking import best_of, is_close_call

NEAR = 0.5


def said(n_tokens: int, sum_logprob: float) -> Hypothesis:
    return Hypothesis(tuple(range(n_tokens)), sum_logprob, done=True)


sums_by_length = st.dictionaries(st.integers(0, 6), st.floats(-30, 0), min_size=1, max_size=5)
hypotheses = sums_by_length.map(lambda sums: [said(*one) for one in sums.items()])
penalties = st.none() | st.floats(0, 1)


@pytest.mark.parametrize(
    ("length_penalty", "n_tokens"), [(None, 20), (0.0, 2), (1.0, 20), (0.1, 2)]
)
def test_length_counts_as_asked(length_penalty: float | None, n_tokens: int) -> None:
    short, long = said(2, -4.0), said(20, -12.0)
    assert len(best_of([short, long], length_penalty).tokens) == n_tokens


@pytest.mark.parametrize(("sum_logprob", "n_tokens"), [(-1.95, 7), (-2.05, 1)])
def test_seven_tokens_may_lose_twice_as_much_as_one(sum_logprob: float, n_tokens: int) -> None:
    """`(5 + n) / 6` is 2 for them and 1 for the one: Wu et al. 2016 with an alpha of 1."""
    assert len(best_of([said(1, -1.0), said(7, sum_logprob)], 1.0).tokens) == n_tokens


def test_a_mean_counts_the_end_and_leaves_out_what_was_taken_for_granted() -> None:
    assert Hypothesis((1, 2, 3), -2.0, done=True).avg_logprob == -0.5
    assert Hypothesis((1, 2, 3), -2.0, done=True, n_fixed=2).avg_logprob == -1.0
    assert Hypothesis((1, 2, 3), -2.0, done=False).avg_logprob == -0.5, "one that was cut off, too"


def test_the_first_of_the_likeliest_is_the_best_whether_or_not_it_was_cut_off() -> None:
    ended, cut_off = said(2, -2.0), Hypothesis((0, 1, 2), -1.5, done=False)
    assert best_of([ended, cut_off], None) is cut_off
    even = [said(2, -2.0), said(1, -1.0)]
    assert best_of(even, None) is even[0]
    assert best_of(even[::-1], None) is even[1]


@settings(deadline=None)
@given(hypotheses, penalties, st.floats(0, 1))
def test_what_is_no_close_call_survives_sums_that_move(
    found: list[Hypothesis], length_penalty: float | None, lost: float
) -> None:
    """The best loses some of what may change, all others gain the rest of it."""
    best = best_of(found, length_penalty)
    loss = lost * NEAR * 0.999
    moved = [
        Hypothesis(
            one.tokens,
            one.sum_logprob + (-loss if one is best else NEAR * 0.999 - loss),
            done=True,
        )
        for one in found
    ]
    after = best_of(moved, length_penalty)
    assert is_close_call(best, found, length_penalty, NEAR) or after.tokens == best.tokens


@pytest.mark.parametrize(("behind", "close"), [(0.4, True), (0.6, False)])
def test_a_close_call_is_measured_in_sums(behind: float, close: bool) -> None:
    best, other = said(100, -50.0), said(80, -40.0 - behind)
    found = [other, best]
    assert best_of(found, None) is best
    assert is_close_call(best, found, None, NEAR) == close


def test_a_short_text_is_overtaken_by_losing_little() -> None:
    best, other = said(2, -1.0), said(20, -10.6)
    assert best_of([best, other], None) is best
    assert best_of([said(2, -1.1), other], None) is other
    assert is_close_call(best, [best, other], None, 0.11)
    assert not is_close_call(best, [best, other], None, 0.05)


@pytest.mark.parametrize("length_penalty", [None, 0.0, 0.6, 1.0])
def test_the_best_is_that_of_openai_whisper(length_penalty: float | None) -> None:
    """Its `MaximumLikelihoodRanker`, but that an empty text counts as one token."""
    rng = np.random.default_rng(0)

    def score(one: Hypothesis) -> float:
        length = len(one.tokens) or 1
        return one.sum_logprob / (
            length if length_penalty is None else ((5 + length) / 6) ** length_penalty
        )

    for _ in range(50):
        found = [said(int(n), float(rng.uniform(-9, 0))) for n in rng.permutation(7)[:4]]
        assert score(best_of(found, length_penalty)) == max(map(score, found))


def test_one_token_is_a_length_like_any_other() -> None:
    assert best_of([said(1, -1.0), said(2, -1.9)], None).tokens == (0, 1)
    assert best_of([said(0, -1.0), said(1, -0.9)], None).tokens == (0,)
    assert best_of([said(0, -1.0), said(2, -2.1)], None).tokens == ()


def test_sums_as_far_apart_as_may_change_are_no_close_call() -> None:
    best, other = said(2, -1.0), said(3, -1.5)
    assert not is_close_call(best, [best, other], 0.0, 0.5)
    assert is_close_call(best, [best, other], 0.0, 0.5001)


def test_the_same_text_drawn_twice_is_no_rival() -> None:
    twice = [said(3, -1.0), said(3, -1.0)]
    assert not is_close_call(best_of(twice, None), twice, None, NEAR)
