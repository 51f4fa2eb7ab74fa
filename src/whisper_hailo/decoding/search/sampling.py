"""Sampling: several texts of one window, drawn by their probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import ends_in_loop
from whisper_hailo.decoding.logits_rules import FilteredLogits, end_lead
from whisper_hailo.decoding.search.hypothesis import Hypothesis
from whisper_hailo.decoding.search.retry_bound import RetryBound, RowBudget


class SampledChoice:
    """Several hypotheses, each sampled with a generator of its own.

    The same seeds, one per hypothesis, draw the same tokens in any batch. Hypotheses share a row of
    the decoder as long as they have drawn the same tokens.
    """

    def __init__(
        self,
        eot: int,
        eot_boost: float,
        temperature: float,
        seeds: Sequence[Sequence[int]],
        bound: RetryBound | None = None,
    ) -> None:
        self._eot = eot
        self._boost = eot_boost
        self._temperature = temperature
        self._generators = [np.random.default_rng(list(seed)) for seed in seeds]
        self._hypotheses = [Hypothesis() for _ in seeds]
        self._rows = [list(range(len(seeds)))]
        """For each row of the decoder, the indices of the hypotheses that it extends."""
        self._bound = bound
        self._budget = None if bound is None else RowBudget(bound)
        self._abandoned: set[int] = set()
        """Indices of hypotheses that the bound stopped."""

    @property
    def running(self) -> Sequence[Hypothesis]:
        """Hypotheses that run on, those with the same tokens once."""
        return [self._hypotheses[members[0]] for members in self._rows]

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        """Draw a token for each hypothesis; see `Choice`."""
        branches: dict[tuple[int, int], list[int]] = {}
        for row, members in enumerate(self._rows):
            for index in members:
                token = self.draw_token(ruled[row].logits, self._generators[index])
                logprob = ruled[row].logprob(token)
                hypothesis = self._hypotheses[index]
                self._hypotheses[index] = hypothesis.extended(token, logprob, self._eot)
                if token != self._eot:
                    branches.setdefault((row, token), []).append(index)
        sources = [row for row, _ in branches]
        self._rows = list(branches.values())
        if self._bound is None or self._budget is None:
            return sources
        width = self._budget.spend(len(ruled))
        return [sources[row] for row in self._narrow(width, self._bound)]

    def _narrow(self, width: int, bound: RetryBound) -> list[int]:
        """Keep the likeliest rows that the bound allows; return their indices."""
        running = self.running
        finished = [hypothesis for hypothesis in self._hypotheses if hypothesis.done]
        allowed = [
            row
            for row, hypothesis in enumerate(running)
            if not bound.excludes(hypothesis, finished)
        ]
        allowed.sort(key=lambda row: -running[row].sum_logprob)
        kept = sorted(allowed[:width])
        for row, members in enumerate(self._rows):
            if row not in kept:
                self._abandoned.update(members)
        self._rows = [self._rows[row] for row in kept]
        return kept

    def draw_token(self, logits: FloatArray, generator: np.random.Generator) -> int:
        """Draw a token; end-of-transcript where its boost decides."""
        if self._boost > 0.0 and end_lead(logits, self._eot, self._boost) > 0.0:
            return self._eot
        exponents = (logits - logits.max()) / self._temperature
        edges = np.cumsum(np.exp(exponents, dtype=np.float64))
        drawn = generator.random() * float(edges[-1])
        # To the right: a draw of exactly 0 must not take an id without probability.
        return int(np.searchsorted(edges, drawn, side="right"))

    def drop_loops(self) -> list[int]:
        """Stop each hypothesis that repeats itself; see `Choice`."""
        kept = [
            row
            for row, members in enumerate(self._rows)
            if not ends_in_loop(self._hypotheses[members[0]].tokens)
        ]
        self._rows = [self._rows[row] for row in kept]
        return kept

    def finish(self) -> list[Hypothesis]:
        """Return all hypotheses; likely loops among them say that the window is in doubt.

        Those that were abandoned are left out, unless all were.
        """
        whole = [
            hypothesis
            for index, hypothesis in enumerate(self._hypotheses)
            if index not in self._abandoned
        ]
        return whole or [Hypothesis(abandoned=True)]
