"""Decoders that count what they compute, and one that does without its cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from whisper_hailo.backends.fixed import FixedRunner
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.protocols import AnyDecoder, Padding, StepOutput
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_lab.around import DecoderAround


@dataclass(slots=True)
class Count:
    """Work of a decoder so far.

    Attributes:
        runs: times that the graph ran.
        rows: positions that went through it, each a row of queries of every attention.
        products: pairs of a query and a key in self-attention, per head and layer: for every row
            as many as there are positions that it is compared with, masked ones included.
        projected: positions projected to the vocabulary.
    """

    runs: int = 0
    rows: int = 0
    products: int = 0
    projected: int = 0

    def add(self, rows: int, keys: int, projected: int) -> None:
        """One run of the graph."""
        self.runs += 1
        self.rows += rows
        self.products += rows * keys
        self.projected += projected


class CountingDecoder(DecoderAround):
    """A decoder with a cache: a step computes the new positions only.

    Args:
        decoder: what really decodes.
        count: where the work is added up; beginning is not counted, since every decoder does it
            once.
    """

    def __init__(self, decoder: AnyDecoder, count: Count) -> None:
        super().__init__(decoder)
        self._count = count

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        positions: IntArray,
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, Any]:
        output, state = super().step(tokens, state, positions, **named)
        self._count.add(tokens.shape[1], state.n_tokens, len(positions))
        return output, state


@dataclass(frozen=True, slots=True)
class GrowingState:
    """An empty cache of the inner decoder and all tokens so far, `(batch, n_tokens)` int64."""

    empty: Any
    tokens: IntArray


class GrowingDecoder(CountingDecoder):
    """The same graph without its cache: a step computes all positions so far again."""

    @property
    def name(self) -> str:
        """Says that nothing is kept."""
        return "growing"

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> GrowingState:
        empty = super().start(audio_features, paddings, n_positions)
        return GrowingState(empty, np.zeros((audio_features.shape[0], 0), np.int64))

    def step(
        self,
        tokens: IntArray,
        state: GrowingState,
        positions: IntArray,
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, GrowingState]:
        """All tokens again from an empty cache, which is then thrown away."""
        everything = np.concatenate([state.tokens, tokens], axis=1)
        wanted = positions + state.tokens.shape[1]
        output, _ = super().step(everything, state.empty, wanted, **named)
        return output, GrowingState(state.empty, everything)

    def batch_size(self, state: GrowingState) -> int:
        return int(state.tokens.shape[0])

    def rewind(self, state: GrowingState, n_tokens: int) -> GrowingState:
        return GrowingState(state.empty, state.tokens[:, :n_tokens])


class CountingRunner(Closing):
    """A fixed graph: every run computes its whole length, whatever is in it.

    Args:
        inner: the graph.
        count: where the work is added up.
    """

    def __init__(self, inner: FixedRunner, count: Count) -> None:
        self._inner, self._count = inner, count
        self.name, self.length, self.n_positions = inner.name, inner.length, inner.n_positions

    def open(self) -> Self:
        self._inner.open()
        return self

    def close(self) -> None:
        self._inner.close()

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        """Run, counted by the shapes of what really goes in and comes out."""
        logits = self._inner.run(tokens, audio_features)
        self._count.add(tokens.shape[1], tokens.shape[1], logits.shape[1])
        return logits
