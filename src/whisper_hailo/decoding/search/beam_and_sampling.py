"""Sampling and beam search: windows with several hypotheses each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import LOOP_CHECK_TOKENS, ends_in_loop
from whisper_hailo.decoding.logits_rules import FilteredLogits, LogitsRules, end_lead
from whisper_hailo.decoding.search.greedy import DecoderInput, Hypothesis, Search, SearchResult

_BLOCK: Final = 256


class Choice(Protocol):
    """The hypotheses of one window."""

    @property
    def running(self) -> Sequence[Hypothesis]:
        """Hypotheses to continue; empty when the window is done."""

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        """Take one step; return, for each hypothesis that runs on, the index it continues.

        There are logits of each running hypothesis.
        """

    def finish(self) -> list[Hypothesis]:
        """Return all hypotheses to rank, done or cut off by the budget; at least one."""


class SampledChoice:
    """Several hypotheses, each sampled with a generator of its own.

    The same seeds, one per hypothesis, draw the same tokens in any batch.
    """

    def __init__(
        self, eot: int, eot_boost: float, temperature: float, seeds: Sequence[Sequence[int]]
    ) -> None:
        self._eot = eot
        self._boost = eot_boost
        self._temperature = temperature
        self._generators = [np.random.default_rng(list(seed)) for seed in seeds]
        self._hypotheses = [Hypothesis() for _ in seeds]
        self._begun = False

    @property
    def running(self) -> Sequence[Hypothesis]:
        """One before the first step, when all are the same; then those not done."""
        live = [hypothesis for hypothesis in self._hypotheses if not hypothesis.done]
        return live if self._begun else live[:1]

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        sources, row = [], 0
        for index, hypothesis in enumerate(self._hypotheses):
            if hypothesis.done:
                continue
            token = self.draw_token(ruled[row].logits, self._generators[index])
            logprob = ruled[row].logprob(token)
            self._hypotheses[index] = hypothesis.extended(token, logprob, self._eot)
            if token != self._eot:
                sources.append(row)
            row += int(self._begun)
        self._begun = True
        return sources

    def draw_token(self, logits: FloatArray, generator: np.random.Generator) -> int:
        """Draw a token; end-of-transcript where its boost decides."""
        if self._boost > 0.0 and end_lead(logits, self._eot, self._boost) > 0.0:
            return self._eot
        weights = np.exp((logits - logits.max()) / self._temperature, dtype=np.float64)
        edges = np.cumsum(weights)
        drawn = generator.random() * float(edges[-1])
        return int(np.searchsorted(edges, drawn, side="right"))

    def finish(self) -> list[Hypothesis]:
        return self._hypotheses


class BeamChoice:
    """Beam search in one window.

    Each step takes the `beam_size + 1` best continuations of every hypothesis. Those that end with
    end-of-transcript and are better than the `beam_size` kept are finished. The search ends with
    `beam_size * patience` finished ones.

    Source: OpenAI Whisper, `BeamSearchDecoder`; patience from Kasai et al. 2022.
    """

    def __init__(self, eot: int, eot_boost: float, beam_size: int, patience: float) -> None:
        self._eot = eot
        self._boost = eot_boost
        self._beam_size = beam_size
        self._wanted = max(1, round(beam_size * patience))
        self._live = [Hypothesis()]
        self._finished: list[Hypothesis] = []

    @property
    def running(self) -> Sequence[Hypothesis]:
        return self._live if len(self._finished) < self._wanted else ()

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        # With a repetition penalty it is the penalised logits that compete.
        candidates = [
            (hypothesis.extended(token, float(row.logits[token]) - row.logsumexp, self._eot), index)
            for index, (hypothesis, row) in enumerate(zip(self._live, ruled, strict=True))
            for token in self._best_tokens(row.logits)
        ]
        candidates.sort(key=lambda candidate: -candidate[0].sum_logprob)
        live: list[Hypothesis] = []
        sources: list[int] = []
        for hypothesis, source in candidates:
            if not hypothesis.done:
                live.append(hypothesis)
                sources.append(source)
            elif len(self._finished) < self._wanted:
                self._finished.append(hypothesis)
            if len(live) == self._beam_size:
                break
        self._live = live
        return sources if self.running else []

    def _best_tokens(self, logits: FloatArray) -> list[int]:
        """Return the best `beam_size + 1` possible ids, best first."""
        if self._boost > 0.0 and end_lead(logits, self._eot, self._boost) > 0.0:
            return [self._eot]
        return highest_logits(logits, self._beam_size + 1)

    def finish(self) -> list[Hypothesis]:
        """Return the finished hypotheses; too few are filled up with the best running ones."""
        missing = max(0, self._beam_size - len(self._finished))
        return [*self._finished, *self._live[:missing]] or [Hypothesis()]


def highest_logits(logits: FloatArray, count: int) -> list[int]:
    """Return the ids of the `count` highest possible logits, best first, lower ids first.

    At least `count` logits reach the `count`-th highest peak of all blocks, and few more do.
    NumPy's partition takes 12 ms where nearly all are `-inf`, and 1 ms otherwise; this takes 0.1
    ms.
    """
    peaks = logits[: logits.size // _BLOCK * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
    bound = np.sort(peaks)[-count] if peaks.size >= count else -np.inf
    near = np.flatnonzero((logits >= bound) & (logits > -np.inf))
    ranked: list[int] = near[np.argsort(-logits[near], kind="stable")][:count].tolist()
    return ranked


class WindowSearch(Search):
    """A batch of windows with several hypotheses each."""

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
        sources: list[int] = []
        tokens: list[list[int]] = []
        windows: list[int] = []
        looks = self._n_steps % LOOP_CHECK_TOKENS == LOOP_CHECK_TOKENS - 1
        for window, choice in enumerate(self._choices):
            running = choice.running if self._n_steps < self._budgets[window] else ()
            if looks and all(ends_in_loop(hypothesis.tokens) for hypothesis in running):
                self._budgets[window], running = self._n_steps, ()
            if not running:
                continue
            own = [row for row, of in enumerate(self._rows) if of == window]
            ruled = [
                self._rules.apply(
                    output.logits[row, 0], float(output.logsumexp[row, 0]), hypothesis.tokens
                )
                for row, hypothesis in zip(own, running, strict=True)
            ]
            kept = choice.advance(ruled)
            if self._n_steps + 1 < self._budgets[window]:
                sources += [own[source] for source in kept]
                tokens += [[hypothesis.tokens[-1]] for hypothesis in choice.running]
                windows += [window] * len(kept)
        self._rows = windows
        self._n_steps += 1
        return DecoderInput(sources, np.array(tokens, dtype=np.int64)) if sources else None

    def finish(self) -> list[SearchResult]:
        return [SearchResult(choice.finish()) for choice in self._choices]
