"""Beam search: the best hypotheses of one window, extended side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import ends_in_loop
from whisper_hailo.decoding.logits_rules import FilteredLogits, end_lead
from whisper_hailo.decoding.search.hypothesis import Hypothesis
from whisper_hailo.decoding.search.retry_bound import RetryBound, RowBudget

_BLOCK: Final = 256
"""Logits whose highest one is compared in `highest_logits`."""


class BeamChoice:
    """Beam search in one window.

    Each step takes the `beam_size + 1` best continuations of every hypothesis. Those that end with
    end-of-transcript and are better than the `beam_size` kept are finished. The search ends with
    `beam_size * patience` finished ones. A bound narrows it as it runs.

    Source: OpenAI Whisper, `BeamSearchDecoder`; patience from Kasai et al. 2022.
    """

    def __init__(
        self,
        eot: int,
        eot_boost: float,
        beam_size: int,
        patience: float,
        bound: RetryBound | None = None,
    ) -> None:
        self._eot = eot
        self._boost = eot_boost
        self._beam_size = beam_size
        self._n_wanted = max(1, round(beam_size * patience))
        self._live = [Hypothesis()]
        self._finished: list[Hypothesis] = []
        self._bound = bound
        self._budget = None if bound is None else RowBudget(bound)

    @property
    def running(self) -> Sequence[Hypothesis]:
        """Hypotheses to continue; none once enough are finished."""
        return self._live if len(self._finished) < self._n_wanted else ()

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        """Take one step; see `Choice`."""
        width = self._beam_size
        if self._budget is not None:
            width = min(width, self._budget.spend(len(ruled)))
        live: list[Hypothesis] = []
        sources: list[int] = []
        for hypothesis, source in self._candidates(ruled):
            if len(live) == width:
                break
            if hypothesis.done:
                if len(self._finished) < self._n_wanted:
                    self._finished.append(hypothesis)
            elif not self._is_excluded(hypothesis):
                live.append(hypothesis)
                sources.append(source)
        self._live = live
        return sources if self.running else []

    def _is_excluded(self, hypothesis: Hypothesis) -> bool:
        """Return whether better text is known; without a bound the search decides."""
        return self._bound is not None and self._bound.excludes(
            hypothesis, self._finished
        )

    def _candidates(
        self, ruled: Sequence[FilteredLogits]
    ) -> list[tuple[Hypothesis, int]]:
        """Return continuations, likeliest first, with the index of what they continue."""
        candidates: list[tuple[Hypothesis, int]] = []
        for index, hypothesis in enumerate(self._live):
            row = ruled[index]
            for token in self._best_tokens(row.logits):
                # With a repetition penalty it is the penalised logits that compete.
                logprob = float(row.logits[token]) - row.logsumexp
                extended = hypothesis.extended(token, logprob, self._eot)
                candidates.append((extended, index))
        candidates.sort(key=lambda candidate: -candidate[0].sum_logprob)
        return candidates

    def _best_tokens(self, logits: FloatArray) -> list[int]:
        """Return the best `beam_size + 1` possible ids, best first."""
        if self._boost > 0.0 and end_lead(logits, self._eot, self._boost) > 0.0:
            return [self._eot]
        return highest_logits(logits, self._beam_size + 1)

    def drop_loops(self) -> list[int]:
        """Stop the search where most hypotheses repeat themselves; see `Choice`.

        They are variants of one text, and the others would repeat themselves soon.
        """
        n_loops = sum(ends_in_loop(hypothesis.tokens) for hypothesis in self._live)
        if 2 * n_loops > len(self._live):
            return []
        return list(range(len(self._live)))

    def finish(self) -> list[Hypothesis]:
        """Return the finished hypotheses; too few are filled up with the best running ones."""
        n_missing = max(0, self._beam_size - len(self._finished))
        hypotheses = [*self._finished, *self._live[:n_missing]]
        return hypotheses or [Hypothesis(abandoned=self._bound is not None)]


def highest_logits(logits: FloatArray, count: int) -> list[int]:
    """Return the ids of the `count` highest possible logits, best first, lower ids first.

    At least `count` logits reach the `count`-th highest peak of all blocks, and few more do.
    NumPy's partition takes 12 ms where nearly all are `-inf`, and 1 ms otherwise; this takes 0.1
    ms.
    """
    n_blocks = logits.size // _BLOCK
    peaks = logits[: n_blocks * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
    bound = -np.inf
    if n_blocks >= count:
        bound = np.sort(peaks)[-count]
    is_near = (logits >= bound) & (logits > -np.inf)
    near = np.flatnonzero(is_near)
    order = np.argsort(-logits[near], kind="stable")  # of equal ones the lower id first
    ranked: list[int] = near[order].tolist()
    return ranked[:count]
