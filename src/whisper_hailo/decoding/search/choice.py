"""How the next token of a window is chosen by sampling or by beam search.

One object per window. It holds the hypotheses that are still running and, at each step, turns
their ruled logits into the hypotheses of the next step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.rules.logits_rules import FilteredLogits
from whisper_hailo.decoding.rules.token_rules import end_lead
from whisper_hailo.decoding.search.hypothesis import Hypothesis

_BLOCK: Final = 256


class Choice(Protocol):
    """The hypotheses of one window."""

    @property
    def running(self) -> Sequence[Hypothesis]:
        """What is to be continued; empty when the window is done."""
        ...

    @property
    def near_ties(self) -> int:
        """How many choices so far another batch might have made differently; see `near_tie`."""
        ...

    def advance(self, raw: Sequence[FloatArray], ruled: Sequence[FilteredLogits]) -> list[int]:
        """Take one step.

        Args:
            raw: per running hypothesis, `(n_vocab,)` float32 logits of the model.
            ruled: the same after the rules.

        Returns:
            for each hypothesis that runs on, the index of the one that it continues.
        """
        ...

    def finish(self) -> list[Hypothesis]:
        """All hypotheses to rank, done or cut off by the budget; at least one."""
        ...


class SampledChoice:
    """Several hypotheses, each drawn token by token with a generator of its own.

    Args:
        eot: id of end-of-transcript.
        eot_boost: lead under which end-of-transcript is taken.
        temperature: above 0; logits are divided by it.
        seeds: one per hypothesis; the same seeds draw the same tokens, in any batch.
        near_tie: a draw is counted that could have led to another token, had any two logits moved
            apart by so much.
    """

    def __init__(
        self,
        eot: int,
        eot_boost: float,
        temperature: float,
        seeds: Sequence[Sequence[int]],
        near_tie: float,
    ) -> None:
        self._eot = eot
        self._boost = eot_boost
        self._temperature = temperature
        self._near_tie = near_tie
        # By how much the odds of any set of tokens may shrink then.
        self._shrunk = math.exp(-near_tie / temperature)
        self._generators = [np.random.default_rng(list(seed)) for seed in seeds]
        self._hypotheses = [Hypothesis() for _ in seeds]
        self._begun = False
        self.near_ties = 0

    @property
    def running(self) -> Sequence[Hypothesis]:
        """One before the first step, for all are the same; then those not done."""
        return self._live() if self._begun else self._hypotheses[:1]

    def _live(self) -> list[Hypothesis]:
        return [hypothesis for hypothesis in self._hypotheses if not hypothesis.done]

    def advance(self, raw: Sequence[FloatArray], ruled: Sequence[FilteredLogits]) -> list[int]:
        """Draw one token for each running hypothesis."""
        sources, row = [], 0
        for index, hypothesis in enumerate(self._hypotheses):
            if hypothesis.done:
                continue
            token = self._draw(ruled[row].logits, self._generators[index])
            logprob = float(raw[row][token]) - ruled[row].logsumexp
            self._hypotheses[index] = hypothesis.extended(token, logprob, self._eot)
            if token != self._eot:
                sources.append(row)
            row += int(self._begun)
        self._begun = True
        return sources

    def _draw(self, logits: FloatArray, generator: np.random.Generator) -> int:
        led = end_lead(logits, self._eot, self._boost) if self._boost > 0.0 else -math.inf
        tied = abs(led) < self._near_tie
        if led > 0.0:
            self.near_ties += tied
            return self._eot
        weights = np.exp((logits - logits.max()) / self._temperature, dtype=np.float64)
        edges = np.cumsum(weights)
        drawn = generator.random() * float(edges[-1])
        token = int(np.searchsorted(edges, drawn, side="right"))
        before = float(edges[token - 1]) if token else 0.0
        masses = before, float(edges[token]), drawn, float(edges[-1])
        self.near_ties += tied or _could_miss(*masses, self._shrunk)
        return token

    def finish(self) -> list[Hypothesis]:
        return self._hypotheses


def _could_miss(before: float, until: float, drawn: float, total: float, shrunk: float) -> bool:
    """Whether a draw may lead to another token, when all odds may change by some factor.

    Where the distance of no two logits changes by more than d, the mass before an edge to that
    behind it changes by a factor of `exp(d / temperature)` at most, and does where all before the
    edge move together. The same number is drawn, as a share of all.

    Args:
        before: mass of the tokens before the one that was drawn.
        until: the same with the one that was drawn.
        drawn: the number drawn, from `before` to `until`.
        total: mass of all tokens.
        shrunk: the smallest factor of the odds, 0 to 1.
    """
    # Odds against odds, multiplied out: behind the last token there is nothing to divide by.
    reaches_next = until * (total - drawn) * shrunk <= drawn * (total - until)
    reaches_last = before * (total - drawn) > drawn * (total - before) * shrunk
    return reaches_next or reaches_last


class BeamChoice:
    """The likeliest hypotheses side by side.

    Each step looks at the `beam_size + 1` best continuations of every hypothesis: so many that end
    with end-of-transcript as are better than the `beam_size` kept are put aside as finished. The
    search ends with `beam_size * patience` finished ones.

    Args:
        eot: id of end-of-transcript.
        eot_boost: lead under which end-of-transcript is a hypothesis' only continuation.
        beam_size: hypotheses kept.
        patience: see above.
        near_tie: sums of log-probabilities closer together than this at the edge of the beam are
            counted.

    Source: OpenAI Whisper, `BeamSearchDecoder`; patience from Kasai et al. 2022.
    """

    def __init__(
        self, eot: int, eot_boost: float, beam_size: int, patience: float, near_tie: float
    ) -> None:
        self._eot = eot
        self._boost = eot_boost
        self._beam_size = beam_size
        self._near_tie = near_tie
        self._wanted = max(1, round(beam_size * patience))
        self._live = [Hypothesis()]
        self._finished: list[Hypothesis] = []
        self.near_ties = 0

    @property
    def running(self) -> Sequence[Hypothesis]:
        """The beam, until enough hypotheses are finished."""
        return self._live if len(self._finished) < self._wanted else ()

    def advance(self, raw: Sequence[FloatArray], ruled: Sequence[FilteredLogits]) -> list[int]:
        """Extend the beam by one token."""
        del raw  # with a repetition penalty it is the penalised logits that compete
        tied = any(abs(self._end_lead(row.logits)) < self._near_tie for row in ruled)
        candidates = [
            (hypothesis.extended(token, float(row.logits[token]) - row.logsumexp, self._eot), index)
            for index, (hypothesis, row) in enumerate(zip(self._live, ruled, strict=True))
            for token in self._best(row.logits)
        ]
        candidates.sort(key=lambda candidate: -candidate[0].sum_logprob)
        live: list[Hypothesis] = []
        sources: list[int] = []
        for rank, (hypothesis, source) in enumerate(candidates):
            if hypothesis.done:
                if len(self._finished) < self._wanted:
                    self._finished.append(hypothesis)
                continue
            live.append(hypothesis)
            sources.append(source)
            if len(live) == self._beam_size:
                tied = tied or self._is_close(hypothesis, candidates[: rank + 2])
                break
        self.near_ties += tied
        self._live = live
        return sources if self.running else []

    def _is_close(self, edge: Hypothesis, candidates: Sequence[tuple[Hypothesis, int]]) -> bool:
        """Whether the last that is kept may fall behind what is not, or before what is finished.

        Args:
            edge: the last that is kept.
            candidates: best first, up to the one behind it, which is left out.
        """
        others = [other for other, _ in candidates if other.done or other is candidates[-1][0]]
        return any(
            other is not edge and abs(edge.sum_logprob - other.sum_logprob) < self._near_tie
            for other in others
        )

    def _end_lead(self, logits: FloatArray) -> float:
        """How far the boost is from making another choice of ending; nothing is, without one."""
        return end_lead(logits, self._eot, self._boost) if self._boost > 0.0 else -math.inf

    def _best(self, logits: FloatArray) -> list[int]:
        """Ids of the best `beam_size + 1` continuations that are possible, best first."""
        if self._end_lead(logits) > 0.0:
            return [self._eot]
        return highest(logits, self._beam_size + 1)

    def finish(self) -> list[Hypothesis]:
        """The finished hypotheses; too few are filled up with the best of the running ones."""
        missing = max(0, self._beam_size - len(self._finished))
        return [*self._finished, *self._live[:missing]] or [Hypothesis()]


def highest(logits: FloatArray, count: int) -> list[int]:
    """Ids of the highest logits that are possible, best first; of equal ones the lower id.

    As many blocks as are wanted reach the lowest of their peaks, so that this many logits do, and
    only a few more. NumPy's own partition takes 12 ms where nearly all are `-inf`, as where a time
    has to come, and 1 ms otherwise; this takes a tenth of one.

    Args:
        logits: `(n_vocab,)` float32.
        count: how many are wanted.
    """
    peaks = logits[: logits.size // _BLOCK * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
    bound = np.sort(peaks)[-count] if peaks.size >= count else -np.inf
    near = np.flatnonzero((logits >= bound) & (logits > -np.inf))
    ranked: list[int] = near[np.argsort(-logits[near], kind="stable")][:count].tolist()
    return ranked
