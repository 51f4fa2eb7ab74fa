"""Greedy search: the best token at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import LOOP_CHECK_TOKENS, ends_in_loop
from whisper_hailo.decoding.logits_rules import LogitsRules
from whisper_hailo.decoding.search.hypothesis import (
    DecoderInput,
    Hypothesis,
    Search,
    SearchResult,
)


class GreedySearch(Search):
    """Greedy decoding of a batch of windows.

    Finished windows leave the batch once at most half of its rows still run: leaving copies the
    keys and values of the others, which costs more than the few steps that a finished row is
    carried along.
    """

    def __init__(self, rules: LogitsRules, budgets: Sequence[int]) -> None:
        self._rules = rules
        self._windows = [
            _GreedyText(budget, is_running=budget > 0) for budget in budgets
        ]
        self._rows = list(self._windows)

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Take each row's best token; see `Search`."""
        # A list: reading NumPy's scalars one by one is slower.
        logsumexps = output.logsumexp[:, 0].tolist()
        for index, row in enumerate(self._rows):
            if row.is_running:
                logits = output.logits[index, 0]
                token, logprob = self._rules.choose(
                    logits, logsumexps[index], row.tokens
                )
                row.take(token, logprob, self._rules.eot)
        rows = self._rows_to_continue()
        if not rows:
            return None
        self._rows = [self._rows[index] for index in rows]
        # A finished row is fed end-of-transcript; what comes of it is ignored.
        eot = self._rules.eot
        ids = [[row.tokens[-1] if row.is_running else eot] for row in self._rows]
        return DecoderInput(rows, np.array(ids, dtype=np.int64))

    def _rows_to_continue(self) -> list[int]:
        """Return the rows that run; all while most of them do, none once none does."""
        running = [index for index, row in enumerate(self._rows) if row.is_running]
        if running and 2 * len(running) > len(self._rows):
            return list(range(len(self._rows)))
        return running

    def finish(self) -> list[SearchResult]:
        """Return the one hypothesis of each window."""
        results: list[SearchResult] = []
        for text in self._windows:
            hypothesis = Hypothesis(tuple(text.tokens), text.sum_logprob, text.done)
            results.append(SearchResult([hypothesis]))
        return results


@dataclass(slots=True)
class _GreedyText:
    """The text of one window, which runs until end-of-transcript, its budget or a loop."""

    budget: int
    tokens: list[int] = field(default_factory=list)
    sum_logprob: float = 0.0
    done: bool = False
    is_running: bool = True

    def take(self, token: int, logprob: float, eot: int) -> None:
        """Append a token, or end the text with end-of-transcript."""
        self.sum_logprob += logprob
        if token == eot:
            self.done = True
            self.is_running = False
            return
        self.tokens.append(token)
        n_tokens = len(self.tokens)
        # Looking for loops at every step would cost more than the few tokens that it saves.
        is_looping = n_tokens % LOOP_CHECK_TOKENS == 0 and ends_in_loop(self.tokens)
        self.is_running = n_tokens < self.budget and not is_looping
