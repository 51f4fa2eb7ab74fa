"""Hypotheses, the base of searches, and greedy search: the best token at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import IntArray
from whisper_hailo.decoding.decoded import LOOP_CHECK_TOKENS, Drafted, ends_in_loop
from whisper_hailo.decoding.logits_rules import LogitsRules


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Tokens generated so far, without the prefix and end-of-transcript.

    Attributes:
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
    """Return the likeliest hypothesis for its length, with the formula of Wu et al. 2016.

    Source: OpenAI Whisper, `MaximumLikelihoodRanker`.
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


class GreedySearch(Search):
    """Greedy decoding of a batch of windows.

    Finished windows leave the batch once at most half of its rows still run: leaving copies the
    keys and values of the others, which costs more than the few steps that a finished row is
    carried along.
    """

    def __init__(self, rules: LogitsRules, budgets: Sequence[int]) -> None:
        self._rules = rules
        self._windows = [_Window(budget, runs=budget > 0) for budget in budgets]
        self._rows = list(self._windows)

    def advance(self, output: StepOutput) -> DecoderInput | None:
        eot = self._rules.eot
        logits, logsumexp = output.logits[:, 0], output.logsumexp[:, 0].tolist()
        for row, own, total in zip(self._rows, logits, logsumexp, strict=True):
            if row.runs:
                row.take(*self._rules.choose(own, total, row.tokens), eot)
        running = [index for index, row in enumerate(self._rows) if row.runs]
        if not running:
            return None
        if 2 * len(running) > len(self._rows):
            running = list(range(len(self._rows)))
        self._rows = [self._rows[index] for index in running]
        ids = [[row.tokens[-1] if row.runs else eot] for row in self._rows]
        return DecoderInput(running, np.array(ids, dtype=np.int64))

    def finish(self) -> list[SearchResult]:
        return [
            SearchResult([Hypothesis(tuple(row.tokens), row.sum_logprob, row.done)])
            for row in self._windows
        ]


@dataclass(slots=True)
class _Window:
    """`runs` until end-of-transcript, the budget or a loop is reached."""

    budget: int
    tokens: list[int] = field(default_factory=list)
    sum_logprob: float = 0.0
    done: bool = False
    runs: bool = True

    def take(self, token: int, logprob: float, eot: int) -> None:
        self.sum_logprob += logprob
        self.done = token == eot
        if not self.done:
            self.tokens.append(token)
        n = len(self.tokens)
        looped = not self.done and n % LOOP_CHECK_TOKENS == 0 and ends_in_loop(self.tokens)
        self.runs = not (self.done or looped) and n < self.budget
