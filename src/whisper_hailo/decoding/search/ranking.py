"""Which of a window's hypotheses is the best."""

from __future__ import annotations

from collections.abc import Sequence

from whisper_hailo.decoding.search.hypothesis import Hypothesis


def best_of(hypotheses: Sequence[Hypothesis], length_penalty: float | None) -> Hypothesis:
    """The likeliest hypothesis for its length.

    Args:
        hypotheses: at least one.
        length_penalty: alpha; the log-probability is divided by `((5 + n) / 6) ** alpha` for n
            tokens, or by n where it is `None`.

    Source: OpenAI Whisper, `MaximumLikelihoodRanker`; the formula is that of Wu et al. 2016.
    """
    return max(hypotheses, key=lambda one: one.sum_logprob / _divisor(one, length_penalty))


def is_close_call(
    best: Hypothesis,
    hypotheses: Sequence[Hypothesis],
    length_penalty: float | None,
    near_tie: float,
) -> bool:
    """Whether another text would be the best, had two sums moved apart or towards each other.

    The shorter of two texts turns a change of its sum into the larger change of its score: so much
    of the distance is asked for as it could cover alone.

    Args:
        best: of these hypotheses, by `best_of`.
        hypotheses: those it was chosen from.
        length_penalty: by which it was.
        near_tie: by how much the distance of two sums of log-probabilities may change.
    """
    divisor = _divisor(best, length_penalty)
    score = best.sum_logprob / divisor
    for other in hypotheses:
        own = _divisor(other, length_penalty)
        ahead = score - other.sum_logprob / own
        if other.tokens != best.tokens and ahead * min(divisor, own) < near_tie:
            return True
    return False


def _divisor(hypothesis: Hypothesis, length_penalty: float | None) -> float:
    n = max(1, len(hypothesis.tokens))
    return n if length_penalty is None else ((5 + n) / 6) ** length_penalty
