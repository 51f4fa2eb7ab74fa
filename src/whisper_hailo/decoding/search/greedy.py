"""Greedy search: the best token at every step, for all windows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.logits_rules import LogitsRules, choose_token
from whisper_hailo.decoding.repetition import LOOP_CHECK_TOKENS, ends_in_loop
from whisper_hailo.decoding.search.hypothesis import DecoderInput, Hypothesis, NoDraft, SearchResult


@dataclass(frozen=True, slots=True)
class GreedyChoice:
    """Takes the best token that the rules allow."""

    rules: LogitsRules
    eot: int
    eot_boost: float

    def __call__(
        self, raw: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> tuple[int, float]:
        """Return the id and its log-probability; `raw` `(n_vocab,)` may be changed."""
        ruled, raw = self.rules.apply_in_place(raw, logsumexp, generated)
        token = choose_token(ruled.logits, self.eot, self.eot_boost)
        return token, float(raw[token]) - ruled.logsumexp


class GreedySearch(NoDraft):
    """Greedy decoding of a batch of windows.

    Finished windows leave the batch once at most half of its rows still run: leaving copies the
    keys and values of the others, which costs more than the few steps that a finished row is
    carried along.
    """

    def __init__(self, choice: GreedyChoice, budgets: Sequence[int]) -> None:
        self._choose = choice
        self._eot = choice.eot
        self._windows = [_Window(budget) for budget in budgets]
        self._rows = list(self._windows)

    def advance(self, output: StepOutput) -> DecoderInput | None:
        logits, logsumexp = output.logits[:, 0], output.logsumexp[:, 0].tolist()
        for row, own, total in zip(self._rows, logits, logsumexp, strict=True):
            if row.runs:
                row.take(*self._choose(own, total, row.tokens), self._eot)
        return self._rows_to_continue()

    def _rows_to_continue(self) -> DecoderInput | None:
        """Keep all rows while most of them run, else only the running ones."""
        running = [index for index, row in enumerate(self._rows) if row.runs]
        if 2 * len(running) > len(self._rows):
            running = list(range(len(self._rows)))
        self._rows = [self._rows[index] for index in running]
        if not running:
            return None
        ids = [[row.tokens[-1] if row.runs else self._eot] for row in self._rows]
        return DecoderInput(running, np.array(ids, dtype=np.int64))

    def finish(self) -> list[SearchResult]:
        return [
            SearchResult((Hypothesis(tuple(of.tokens), of.sum_logprob, of.done),))
            for of in self._windows
        ]


@dataclass(slots=True)
class _Window:
    budget: int
    tokens: list[int] = field(default_factory=list)
    sum_logprob: float = 0.0
    done: bool = False

    looped: bool = False

    @property
    def runs(self) -> bool:
        """Return whether neither end-of-transcript, the budget nor a loop was reached."""
        return not (self.done or self.looped) and len(self.tokens) < self.budget

    def take(self, token: int, logprob: float, eot: int) -> None:
        self.sum_logprob += logprob
        if token == eot:
            self.done = True
        else:
            self.tokens.append(token)
            if len(self.tokens) % LOOP_CHECK_TOKENS == 0:
                self.looped = ends_in_loop(self.tokens)
