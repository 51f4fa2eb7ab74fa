"""The best token at every step, for all windows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.logits_rules import LogitsRules, choose
from whisper_hailo.decoding.repetition import LOOP_CHECK_TOKENS, ends_in_loop
from whisper_hailo.decoding.search.hypothesis import DecoderInput, Hypothesis, NoDraft, SearchResult


@dataclass(frozen=True, slots=True)
class GreedyChoice:
    """The best token that the rules allow.

    Attributes:
        rules: which tokens may come.
        eot: id of end-of-transcript.
        eot_boost: lead under which end-of-transcript is taken.
    """

    rules: LogitsRules
    eot: int
    eot_boost: float

    def __call__(
        self, raw: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> tuple[int, float]:
        """Return the id and its log-probability; `raw` may be changed.

        Args:
            raw: `(n_vocab,)` float32 logits of the model.
            logsumexp: of this row.
            generated: ids generated so far in this window.
        """
        ruled, raw = self.rules.apply_in_place(raw, logsumexp, generated)
        token = choose(ruled.logits, self.eot, self.eot_boost)
        return token, float(raw[token]) - ruled.logsumexp


class GreedySearch(NoDraft):
    """Greedy decoding of a batch of windows.

    Windows that are done leave the batch once no more than half of its rows still run: leaving
    means to copy the keys and values of those that stay, which costs more than the few steps that
    a done row is carried along.

    Args:
        choice: takes one token.
        budgets: most tokens of each window.
    """

    def __init__(self, choice: GreedyChoice, budgets: Sequence[int]) -> None:
        self._choose = choice
        self._eot = choice.eot
        self._windows = [_Window(budget) for budget in budgets]
        self._rows = list(self._windows)

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Take one token in every row; see `Search`."""
        logits, logsumexp = output.logits[:, 0], output.logsumexp[:, 0].tolist()
        for row, own, total in zip(self._rows, logits, logsumexp, strict=True):
            if row.runs:
                row.take(*self._choose(own, total, row.tokens), self._eot)
        return self._rows_to_continue()

    def _rows_to_continue(self) -> DecoderInput | None:
        """Those that run, and so long as they are most, the others with them."""
        running = [index for index, row in enumerate(self._rows) if row.runs]
        if 2 * len(running) > len(self._rows):
            running = list(range(len(self._rows)))
        self._rows = [self._rows[index] for index in running]
        if not running:
            return None
        ids = [[row.tokens[-1] if row.runs else self._eot] for row in self._rows]
        return DecoderInput(running, np.array(ids, dtype=np.int64))

    def finish(self) -> list[SearchResult]:
        """The one hypothesis of each window."""
        return [
            SearchResult((Hypothesis(tuple(of.tokens), of.sum_logprob, of.done),))
            for of in self._windows
        ]


@dataclass(slots=True)
class _Window:
    """One window on its way."""

    budget: int
    tokens: list[int] = field(default_factory=list)
    sum_logprob: float = 0.0
    done: bool = False

    looped: bool = False

    @property
    def runs(self) -> bool:
        """Whether neither end-of-transcript, the budget nor a loop was reached."""
        return not (self.done or self.looped) and len(self.tokens) < self.budget

    def take(self, token: int, logprob: float, eot: int) -> None:
        self.sum_logprob += logprob
        if token == eot:
            self.done = True
        else:
            self.tokens.append(token)
            if len(self.tokens) % LOOP_CHECK_TOKENS == 0:
                self.looped = ends_in_loop(self.tokens)
