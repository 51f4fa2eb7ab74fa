"""A row of tokens while it is being decoded, and what a search makes of a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from whisper_hailo.core.protocols import StepOutput

NEAR_TIE: Final = 1e-3
"""Logits, or sums of log-probabilities, closer together than this may change places in a pass of
more rows or more tokens, whose sums are rounded in another order; those of `micro` move by 4e-5."""

_NEAR_TIES: Final = {"none": NEAR_TIE, "int8": 0.5, "int4": 0.5}
"""Decoders of 8- and 4-bit weights round activations to 8 bits, too. Where another order of sums
takes one of these over the edge of a step, logits of `micro` moved by up to 0.32, the distance of
two of them by up to 0.36."""

_FOREIGN_NEAR_TIE: Final = 1.0
"""Graphs of other programs quantise with one scale for all rows of a batch, so that the rows move
each other: `micro` exported by Optimum in INT8 by up to 0.67, the distance of two by up to 0.68."""


def near_tie(quantization: str) -> float:
    """How close logits of such a decoder lie where a pass of another shape may choose differently.

    Args:
        quantization: of the decoder's weights: `none`, `int8` or `int4`, or what another program
            made of them.
    """
    return _NEAR_TIES.get(quantization, _FOREIGN_NEAR_TIE)


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


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found in one window.

    Attributes:
        hypotheses: done or cut off by the budget; at least one.
        near_ties: how many choices another batch might have made differently; see `near_tie`.
    """

    hypotheses: Sequence[Hypothesis]
    near_ties: int


class Search(Protocol):
    """How the tokens of a batch of windows are chosen."""

    def advance(self, output: StepOutput) -> tuple[list[int], list[int]]:
        """Take one step in every window that runs.

        Args:
            output: of the last pass, whose last position counts; its logits are used up.

        Returns:
            the rows of that pass to continue, and the ids to feed them; none when all is done.
        """
        ...

    def finish(self) -> list[Found]:
        """What was found, window by window."""
        ...
