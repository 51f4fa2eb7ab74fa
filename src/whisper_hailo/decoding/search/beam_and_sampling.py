"""How the next token of a window is chosen by sampling or by beam search.

One object per window. It holds the hypotheses that are still running and, at each step, turns
their ruled logits into the hypotheses of the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.logits_rules import FilteredLogits, LogitsRules, end_lead
from whisper_hailo.decoding.repetition import LOOP_CHECK_TOKENS, ends_in_loop
from whisper_hailo.decoding.search.hypothesis import DecoderInput, Hypothesis, NoDraft, SearchResult

_BLOCK: Final = 256


class Choice(Protocol):
    """The hypotheses of one window."""

    @property
    def running(self) -> Sequence[Hypothesis]:
        """What is to be continued; empty when the window is done."""
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
        if self._boost > 0.0 and end_lead(logits, self._eot, self._boost) > 0.0:
            return self._eot
        weights = np.exp((logits - logits.max()) / self._temperature, dtype=np.float64)
        edges = np.cumsum(weights)
        drawn = generator.random() * float(edges[-1])
        return int(np.searchsorted(edges, drawn, side="right"))

    def finish(self) -> list[Hypothesis]:
        return self._hypotheses


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
        """The beam, until enough hypotheses are finished."""
        return self._live if len(self._finished) < self._wanted else ()

    def advance(self, raw: Sequence[FloatArray], ruled: Sequence[FilteredLogits]) -> list[int]:
        """Extend the beam by one token."""
        del raw  # with a repetition penalty it is the penalised logits that compete
        candidates = [
            (hypothesis.extended(token, float(row.logits[token]) - row.logsumexp, self._eot), index)
            for index, (hypothesis, row) in enumerate(zip(self._live, ruled, strict=True))
            for token in self._best(row.logits)
        ]
        candidates.sort(key=lambda candidate: -candidate[0].sum_logprob)
        live: list[Hypothesis] = []
        sources: list[int] = []
        for hypothesis, source in candidates:
            if hypothesis.done:
                if len(self._finished) < self._wanted:
                    self._finished.append(hypothesis)
                continue
            live.append(hypothesis)
            sources.append(source)
            if len(live) == self._beam_size:
                break
        self._live = live
        return sources if self.running else []

    def _best(self, logits: FloatArray) -> list[int]:
        """Ids of the best `beam_size + 1` continuations that are possible, best first."""
        if self._boost > 0.0 and end_lead(logits, self._eot, self._boost) > 0.0:
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
