"""The best token at every step, for all windows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.rules.book import RuleBook
from whisper_hailo.decoding.rules.logits import choose, lead
from whisper_hailo.decoding.search.hypothesis import Found, Hypothesis


class GreedySearch:
    """Greedy decoding of a batch of windows.

    Windows that are done leave the batch once no more than half of its rows still run: leaving
    means to copy the keys and values of those that stay, which costs more than the few steps that
    a done row is carried along.

    Args:
        rules: which tokens may come.
        eot: id of end-of-transcript.
        eot_boost: lead under which end-of-transcript is taken.
        budgets: most tokens of each window.
        near_tie: a choice whose lead is less is counted.
    """

    def __init__(
        self,
        rules: RuleBook,
        eot: int,
        eot_boost: float,
        budgets: Sequence[int],
        near_tie: float,
    ) -> None:
        self._rules = rules
        self._eot = eot
        self._boost = eot_boost
        self._near_tie = near_tie
        self._windows = [_Window(budget) for budget in budgets]
        self._rows = list(self._windows)

    def advance(self, output: StepOutput) -> tuple[list[int], list[int]]:
        """Take one token in every row; see `Search`."""
        logits, logsumexp = output.logits[:, -1], output.logsumexp[:, -1].tolist()
        for row, own, total in zip(self._rows, logits, logsumexp, strict=True):
            if row.runs:
                ruled, raw = self._rules.apply_in_place(own, total, row.tokens)
                token = choose(ruled.logits, self._eot, self._boost)
                logprob = float(raw[token]) - ruled.logsumexp
                margin = lead(ruled.logits, token, self._eot, self._boost)
                row.take(token, logprob, self._eot, tied=margin < self._near_tie)
        return self._rows_to_continue()

    def _rows_to_continue(self) -> tuple[list[int], list[int]]:
        """Those that run, and so long as they are most, the others with them."""
        running = [index for index, row in enumerate(self._rows) if row.runs]
        if 2 * len(running) > len(self._rows):
            running = list(range(len(self._rows)))
        self._rows = [self._rows[index] for index in running]
        return running, [row.tokens[-1] if row.runs else self._eot for row in self._rows]

    def finish(self) -> list[Found]:
        """The one hypothesis of each window."""
        return [
            Found((Hypothesis(tuple(of.tokens), of.sum_logprob, of.done),), of.near_ties)
            for of in self._windows
        ]


@dataclass(slots=True)
class _Window:
    """One window on its way."""

    budget: int
    tokens: list[int] = field(default_factory=list)
    sum_logprob: float = 0.0
    near_ties: int = 0
    done: bool = False

    @property
    def runs(self) -> bool:
        """Neither end-of-transcript nor the budget was reached."""
        return not self.done and len(self.tokens) < self.budget

    def take(self, token: int, logprob: float, eot: int, *, tied: bool) -> None:
        """Note a choice."""
        self.sum_logprob += logprob
        self.near_ties += tied
        if token == eot:
            self.done = True
        else:
            self.tokens.append(token)
