"""Hypotheses, and the base of the searches that extend them token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import IntArray
from whisper_hailo.decoding.decoded import Drafted


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Tokens generated so far, without the prefix and end-of-transcript.

    Attributes:
        sum_logprob: of these and, once done, of end-of-transcript.
        done: end-of-transcript came.
        n_fixed: settled tokens, which are not in the sum.
        abandoned: a retry stopped it; see `retry_bound`.
    """

    tokens: tuple[int, ...] = ()
    sum_logprob: float = 0.0
    done: bool = False
    n_fixed: int = 0
    abandoned: bool = False

    def extended(self, token: int, logprob: float, eot: int) -> Hypothesis:
        """Return the hypothesis with one token more, which ends it if it is `eot`."""
        sum_logprob = self.sum_logprob + logprob
        if token == eot:
            return Hypothesis(self.tokens, sum_logprob, done=True)
        return Hypothesis((*self.tokens, token), sum_logprob)

    @property
    def avg_logprob(self) -> float:
        """Mean per token, end-of-transcript counted."""
        return self.sum_logprob / (len(self.tokens) - self.n_fixed + 1)


def select_best(
    hypotheses: Sequence[Hypothesis], length_penalty: float | None
) -> Hypothesis:
    """Return the likeliest hypothesis for its length, with the formula of Wu et al. 2016.

    Source: OpenAI Whisper, `MaximumLikelihoodRanker`.
    """

    def score(hypothesis: Hypothesis) -> float:
        n_tokens = max(1, len(hypothesis.tokens))  # an empty text counts as one token
        if length_penalty is None:
            return hypothesis.sum_logprob / n_tokens
        divisor: float = ((5 + n_tokens) / 6) ** length_penalty
        return hypothesis.sum_logprob / divisor

    return max(hypotheses, key=score)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hypotheses of one window, at least one, done or cut off by the budget."""

    hypotheses: Sequence[Hypothesis]
    drafted: Drafted | None = None


@dataclass(frozen=True, slots=True)
class DecoderInput:
    """The next decoder pass.

    Attributes:
        rows: rows of the last pass to continue, repeats allowed.
        tokens: `(n_rows, n_tokens)` int64; logits are asked for at all of them.
        keep: tokens after the prompt that the cache keeps; `None` for all.
    """

    rows: list[int]
    tokens: IntArray
    keep: int | None = None


class Search:
    """Chooses the tokens of a batch of windows.

    Attributes:
        opening: ids of a draft that are fed together with the prompt, for a batch of one window.
        n_fixed: how many of these are settled.
        aligns: it needs the alignment heads' weights.
    """

    opening: tuple[int, ...] = ()
    n_fixed = 0
    aligns = False

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Take the last pass, whose logits may change; return the next, or `None` at the end."""
        raise NotImplementedError

    def finish(self) -> list[SearchResult]:
        """Return the results, window by window."""
        raise NotImplementedError
