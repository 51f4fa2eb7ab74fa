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

    def score(hypothesis: Hypothesis) -> float:
        n = max(1, len(hypothesis.tokens))
        penalty = n if length_penalty is None else ((5 + n) / 6) ** length_penalty
        return hypothesis.sum_logprob / penalty

    return max(hypotheses, key=score)
