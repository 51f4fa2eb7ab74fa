"""Search with several hypotheses a window, which a beam or a sampler chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import LOOP_CHECK_TOKENS
from whisper_hailo.decoding.logits_rules import FilteredLogits, LogitsRules
from whisper_hailo.decoding.search.hypothesis import (
    DecoderInput,
    Hypothesis,
    Search,
    SearchResult,
)


class Choice(Protocol):
    """The hypotheses of one window."""

    @property
    def running(self) -> Sequence[Hypothesis]:
        """Hypotheses to continue; empty when the window is done."""

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        """Take one step; return, for each hypothesis that runs on, the index it continues.

        There are logits of each running hypothesis.
        """

    def drop_loops(self) -> list[int]:
        """Stop hypotheses that repeat themselves; return the indices of those that run on."""

    def finish(self) -> list[Hypothesis]:
        """Return all hypotheses to rank, done or cut off by the budget; at least one."""


class WindowSearch(Search):
    """A batch of windows with several hypotheses each."""

    def __init__(
        self, rules: LogitsRules, choices: Sequence[Choice], budgets: Sequence[int]
    ) -> None:
        self._rules = rules
        self._choices = choices
        self._budgets = list(budgets)
        self._windows_of_rows = list(range(len(choices)))
        """For each row of the last pass, its window; rows of one window lie together."""
        self._n_steps = 0

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Let each window's choice take a step; see `Search`."""
        sources: list[int] = []
        tokens: list[list[int]] = []
        windows: list[int] = []
        for window, choice in enumerate(self._choices):
            rows = self._rows_to_continue(window, choice)
            if not rows:
                continue
            running = choice.running
            ruled = []
            for row, hypothesis in zip(rows, running, strict=True):
                logsumexp = float(output.logsumexp[row, 0])
                ruled.append(
                    self._rules.apply(
                        output.logits[row, 0], logsumexp, hypothesis.tokens
                    )
                )
            continued = choice.advance(ruled)
            if self._n_steps + 1 < self._budgets[window]:
                sources += [rows[index] for index in continued]
                tokens += [[hypothesis.tokens[-1]] for hypothesis in choice.running]
                windows += [window] * len(continued)
        self._windows_of_rows = windows
        self._n_steps += 1
        if not sources:
            return None
        return DecoderInput(sources, np.array(tokens, dtype=np.int64))

    def _rows_to_continue(self, window: int, choice: Choice) -> list[int]:
        """Return the rows of a window's hypotheses that run on."""
        if self._n_steps >= self._budgets[window]:
            return []
        rows = [
            row for row, owner in enumerate(self._windows_of_rows) if owner == window
        ]
        if self._n_steps % LOOP_CHECK_TOKENS < LOOP_CHECK_TOKENS - 1:
            return rows
        rows = [rows[index] for index in choice.drop_loops()]
        if not rows:
            self._budgets[window] = self._n_steps
        return rows

    def finish(self) -> list[SearchResult]:
        """Return all hypotheses of each window."""
        return [SearchResult(choice.finish()) for choice in self._choices]
