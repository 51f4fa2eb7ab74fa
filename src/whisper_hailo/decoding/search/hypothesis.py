"""A row of tokens while it is being decoded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Tokens generated so far.

    Attributes:
        tokens: without the prefix and without end-of-transcript.
        sum_logprob: of these and, once done, of end-of-transcript.
        done: end-of-transcript came.
    """

    tokens: tuple[int, ...] = ()
    sum_logprob: float = 0.0
    done: bool = False

    def extended(self, token: int, logprob: float, eot: int) -> Hypothesis:
        """With one id more."""
        total = self.sum_logprob + logprob
        if token == eot:
            return Hypothesis(self.tokens, total, done=True)
        return Hypothesis((*self.tokens, token), total)

    @property
    def avg_logprob(self) -> float:
        """Mean per token, end-of-transcript counted."""
        return self.sum_logprob / (len(self.tokens) + 1)
