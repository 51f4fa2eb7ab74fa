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
        self._windows = [_GreedyText(budget, is_running=budget > 0) for budget in budgets]
        self._rows = list(self._windows)

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Take each row's best token; see `Search`."""
        eot = self._rules.eot
        # A list: reading NumPy's scalars one by one is slower.
        logsumexps = output.logsumexp[:, 0].tolist()
        for row, logits, logsumexp in zip(self._rows, output.logits[:, 0], logsumexps, strict=True):
            if row.is_running:
                token, logprob = self._rules.choose(logits, logsumexp, row.tokens)
                row.take(token, logprob, eot)
        running = [index for index, row in enumerate(self._rows) if row.is_running]
        if not running:
            return None
        if 2 * len(running) > len(self._rows):
            running = list(range(len(self._rows)))
        self._rows = [self._rows[index] for index in running]
        # A finished row is fed end-of-transcript; what comes of it is ignored.
        ids = [[row.tokens[-1] if row.is_running else eot] for row in self._rows]
        return DecoderInput(running, np.array(ids, dtype=np.int64))

    def finish(self) -> list[SearchResult]:
        """Return the one hypothesis of each window."""
        return [
            SearchResult([Hypothesis(tuple(text.tokens), text.sum_logprob, text.done)])
            for text in self._windows
        ]


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
