"""Hypotheses: average log-probability, and the choice of the best."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.decoding.search.hypothesis import Hypothesis, select_best


def hypothesis_of(n_tokens: int, sum_logprob: float) -> Hypothesis:
    return Hypothesis(tuple(range(n_tokens)), sum_logprob, done=True)


@pytest.mark.parametrize(
    ("length_penalty", "n_tokens"), [(None, 20), (0.0, 2), (1.0, 20), (0.1, 2)]
)
def test_select_best_applies_length_penalty(
    length_penalty: float | None, n_tokens: int
) -> None:
    short = hypothesis_of(2, -4.0)
    long = hypothesis_of(20, -12.0)
    assert len(select_best([short, long], length_penalty).tokens) == n_tokens


@pytest.mark.parametrize(("sum_logprob", "n_tokens"), [(-1.95, 7), (-2.05, 1)])
def test_select_best_with_alpha_one_follows_wu_et_al(
    sum_logprob: float, n_tokens: int
) -> None:
    """`(5 + n) / 6` is 2 for them and 1 for the one: Wu et al. 2016 with an alpha of 1."""
    assert (
        len(
            select_best(
                [hypothesis_of(1, -1.0), hypothesis_of(7, sum_logprob)], 1.0
            ).tokens
        )
        == n_tokens
    )


def test_avg_logprob_counts_end_and_omits_fixed_tokens() -> None:
    assert Hypothesis((1, 2, 3), -2.0, done=True).avg_logprob == -0.5
    assert Hypothesis((1, 2, 3), -2.0, done=True, n_fixed=2).avg_logprob == -1.0
    assert Hypothesis((1, 2, 3), -2.0, done=False).avg_logprob == -0.5, (
        "a hypothesis that was cut off, too"
    )


def test_select_best_on_a_tie_takes_the_first() -> None:
    ended = hypothesis_of(2, -2.0)
    cut_off = Hypothesis((0, 1, 2), -1.5, done=False)
    assert select_best([ended, cut_off], None) is cut_off
    even = [hypothesis_of(2, -2.0), hypothesis_of(1, -1.0)]
    assert select_best(even, None) is even[0]
    assert select_best(even[::-1], None) is even[1]


@pytest.mark.parametrize("length_penalty", [None, 0.0, 0.6, 1.0])
def test_select_best_matches_openai_whisper(length_penalty: float | None) -> None:
    """OpenAI's `MaximumLikelihoodRanker`, except that an empty text counts as one token."""
    rng = np.random.default_rng(0)

    def score(hypothesis: Hypothesis) -> float:
        length = len(hypothesis.tokens) or 1
        return hypothesis.sum_logprob / (
            length if length_penalty is None else ((5 + length) / 6) ** length_penalty
        )

    for _ in range(50):
        candidates = [
            hypothesis_of(int(n), float(rng.uniform(-9, 0)))
            for n in rng.permutation(7)[:4]
        ]
        assert score(select_best(candidates, length_penalty)) == max(
            map(score, candidates)
        )


def test_select_best_counts_empty_text_as_one_token() -> None:
    assert select_best(
        [hypothesis_of(1, -1.0), hypothesis_of(2, -1.9)], None
    ).tokens == (0, 1)
    assert select_best(
        [hypothesis_of(0, -1.0), hypothesis_of(1, -0.9)], None
    ).tokens == (0,)
    assert (
        select_best([hypothesis_of(0, -1.0), hypothesis_of(2, -2.1)], None).tokens == ()
    )
