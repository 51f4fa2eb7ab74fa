"""Sampling: several texts of one window, drawn by their probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import ends_in_loop
from whisper_hailo.decoding.logits_rules import FilteredLogits, end_lead
from whisper_hailo.decoding.search.hypothesis import Hypothesis


class SampledChoice:
    """Several hypotheses, each sampled with a generator of its own.

    The same seeds, one per hypothesis, draw the same tokens in any batch.
    """

    def __init__(
        self,
        eot: int,
        eot_boost: float,
        temperature: float,
        seeds: Sequence[Sequence[int]],
    ) -> None:
        self._eot = eot
        self._boost = eot_boost
        self._temperature = temperature
        self._generators = [np.random.default_rng(list(seed)) for seed in seeds]
        self._hypotheses = [Hypothesis() for _ in seeds]
        self._has_begun = False
        self._loops: set[int] = set()
        """Indices of hypotheses that were stopped as they repeat themselves."""

    @property
    def running(self) -> Sequence[Hypothesis]:
        """One before the first step, when all are the same; then those not done."""
        live = [self._hypotheses[index] for index in self._live_indices()]
        return live if self._has_begun else live[:1]

    def _live_indices(self) -> list[int]:
        """Return the hypotheses that run on."""
        return [
            index
            for index, hypothesis in enumerate(self._hypotheses)
            if not hypothesis.done and index not in self._loops
        ]

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        """Draw a token for each hypothesis; see `Choice`."""
        sources: list[int] = []
        row = 0
        for index in self._live_indices():
            hypothesis = self._hypotheses[index]
            token = self.draw_token(ruled[row].logits, self._generators[index])
            logprob = ruled[row].logprob(token)
            self._hypotheses[index] = hypothesis.extended(token, logprob, self._eot)
            if token != self._eot:
                sources.append(row)
            if self._has_begun:  # until then all hypotheses share the first row
                row += 1
        self._has_begun = True
        return sources

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
        kept: list[int] = []
        for row, index in enumerate(self._live_indices()):
            if ends_in_loop(self._hypotheses[index].tokens):
                self._loops.add(index)
            else:
                kept.append(row)
        return kept

    def finish(self) -> list[Hypothesis]:
        """Return all hypotheses; likely loops among them say that the window is in doubt."""
        return self._hypotheses
