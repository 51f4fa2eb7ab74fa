"""Hypotheses, and the protocol of searches over a batch of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import IntArray
from whisper_hailo.decoding.decoded import Drafted


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Tokens generated so far.

    Attributes:
        tokens: without the prefix and end-of-transcript.
        sum_logprob: of these and, once done, of end-of-transcript.
        done: end-of-transcript came.
        n_fixed: settled tokens, which are not in the sum.
    """

    tokens: tuple[int, ...] = ()
    sum_logprob: float = 0.0
    done: bool = False
    n_fixed: int = 0

    def extended(self, token: int, logprob: float, eot: int) -> Hypothesis:
        total = self.sum_logprob + logprob
        if token == eot:
            return Hypothesis(self.tokens, total, done=True)
        return Hypothesis((*self.tokens, token), total)

    @property
    def avg_logprob(self) -> float:
        """Mean per token, end-of-transcript counted."""
        return self.sum_logprob / (len(self.tokens) - self.n_fixed + 1)


def select_best(hypotheses: Sequence[Hypothesis], length_penalty: float | None) -> Hypothesis:
    """Return the likeliest hypothesis for its length.

    Args:
        hypotheses: at least one.
        length_penalty: alpha; the log-probability is divided by `((5 + n) / 6) ** alpha` for n
            tokens, or by n where it is `None`.

    Source: OpenAI Whisper, `MaximumLikelihoodRanker`; the formula is that of Wu et al. 2016.
    """

    def score(hypothesis: Hypothesis) -> float:
        n = max(1, len(hypothesis.tokens))
        divisor = n if length_penalty is None else ((5 + n) / 6) ** length_penalty
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


class Search(Protocol):
    """Chooses the tokens of a batch of windows."""

    @property
    def opening(self) -> tuple[int, ...]:
        """Ids fed together with the prompt, for a batch of one window."""
        ...

    @property
    def n_fixed(self) -> int:
        """How many of these are settled."""
        ...

    @property
    def aligns(self) -> bool:
        """Whether it needs the alignment heads' weights."""
        ...

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Take one step in every running window; return the next input, or `None` at the end.

        Args:
            output: of the last pass; its logits may be changed.
        """
        ...

    def finish(self) -> list[SearchResult]:
        """Return the results, window by window."""
        ...


class NoDraft:
    """Defaults of searches without a draft: each pass adds one token to a row."""

    opening: tuple[int, ...] = ()
    n_fixed = 0
    aligns = False
