"""Searches that keep several hypotheses of a window: one object per window, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.rules.logits_rules import LogitsRules
from whisper_hailo.decoding.search.choice import Choice
from whisper_hailo.decoding.search.hypothesis import DecoderInput, Hypothesis, NoDraft, SearchResult
from whisper_hailo.decoding.text import LOOP_CHECK_TOKENS, ends_in_loop


class WindowSearch(NoDraft):
    """A batch of windows, each with hypotheses of its own.

    Args:
        rules: which tokens may come.
        choices: one per window.
        budgets: most tokens of each window.
    """

    def __init__(
        self, rules: LogitsRules, choices: Sequence[Choice], budgets: Sequence[int]
    ) -> None:
        self._rules = rules
        self._choices = choices
        self._budgets = list(budgets)
        self._rows = list(range(len(choices)))
        """For each row of the last pass, its window; rows of one window lie together."""
        self._n_steps = 0

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """One token more for every hypothesis that runs; see `Search`."""
        sources: list[int] = []
        tokens: list[int] = []
        windows: list[int] = []
        for window, choice in enumerate(self._choices):
            own = [row for row, of in enumerate(self._rows) if of == window]
            running = self._running(window, choice)
            if not running:
                continue
            raw = [output.logits[row, 0] for row in own]
            ruled = [
                self._rules.apply(logits, float(output.logsumexp[row, 0]), hypothesis.tokens)
                for logits, row, hypothesis in zip(raw, own, running, strict=True)
            ]
            kept = choice.advance(raw, ruled)
            if self._n_steps + 1 == self._budgets[window]:
                continue
            sources += [own[source] for source in kept]
            tokens += [hypothesis.tokens[-1] for hypothesis in choice.running]
            windows += [window] * len(kept)
        self._rows = windows
        self._n_steps += 1
        return (
            DecoderInput(sources, np.array(tokens, dtype=np.int64)[:, np.newaxis])
            if sources
            else None
        )

    def _running(self, window: int, choice: Choice) -> Sequence[Hypothesis]:
        """Return the hypotheses to continue; none behind the budget, or where all of them loop."""
        if self._n_steps >= self._budgets[window]:
            return ()
        looks = self._n_steps % LOOP_CHECK_TOKENS == LOOP_CHECK_TOKENS - 1
        if looks and all(ends_in_loop(hypothesis.tokens) for hypothesis in choice.running):
            self._budgets[window] = self._n_steps
            return ()
        return choice.running

    def finish(self) -> list[SearchResult]:
        """All hypotheses of each window."""
        return [SearchResult(choice.finish()) for choice in self._choices]
