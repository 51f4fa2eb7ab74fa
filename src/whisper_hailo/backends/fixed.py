"""A decoder without a cache behind the `Decoder` protocol: the whole sequence at every step.

The graph, an ONNX file or a compiled network, is a `FixedRunner`; everything that is the same for
all of them is here: the token history, zero rows, positions, log-sum-exp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from whisper_hailo.backends.checks import check_features, check_rewind, check_step
from whisper_hailo.backends.silence import cut_to, logsumexp
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError, ShapeError
from whisper_hailo.core.protocols import Closeable, Limits, Padding, StepOutput
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray


class FixedRunner(Closeable, Protocol):
    """One graph of fixed sizes that maps a whole token sequence to logits at every position."""

    @property
    def name(self) -> str:
        """Short name for results, such as `fixed-fp32` or `hef-hailo8l`."""
        ...

    @property
    def length(self) -> int:
        """Text positions of the graph, prefix included."""
        ...

    @property
    def n_positions(self) -> int:
        """Encoder positions of the graph."""
        ...

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        """Run all positions.

        Args:
            tokens: `(batch, length)` int64, padded with 0 behind the real ones.
            audio_features: `(batch, n_positions, d_model)` float32, padded with zero rows.

        Returns:
            logits `(batch, length, n_vocab)` float32; row i belongs to the token after token i.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedState:
    """A batch of hypotheses between two runs: nothing but what the graph is fed.

    Attributes:
        audio_features: `(batch, n_positions, d_model)` float32.
        tokens: `(batch, n_tokens)` int64, left padding included.
        first: `(batch,)` int64 column of each row's first real token.
    """

    audio_features: FloatArray
    tokens: IntArray
    first: IntArray

    @property
    def batch(self) -> int:
        return int(self.tokens.shape[0])

    @property
    def n_tokens(self) -> int:
        """Tokens taken so far, left padding counted."""
        return int(self.tokens.shape[1])


class FixedDecoder(Closing):
    """Decodes by running a fixed graph over the token history at every step.

    Raises:
        ShapeError: the graph is longer than the model's contexts.
    """

    def __init__(self, runner: FixedRunner, spec: ModelSpec) -> None:
        dims = spec.dims
        if not (
            1 < runner.length <= dims.n_text_ctx and 0 < runner.n_positions <= dims.n_audio_ctx
        ):
            raise ShapeError(
                f"{runner.name} has {runner.length} text and {runner.n_positions} encoder "
                f"positions, {spec.name} has {dims.n_text_ctx} and {dims.n_audio_ctx}; "
                "decoder and --model must be of one model"
            )
        self._runner = runner
        narrowed = replace(dims, n_text_ctx=runner.length, n_audio_ctx=runner.n_positions)
        self._spec = replace(spec, dims=narrowed)

    @property
    def spec(self) -> ModelSpec:
        """The model, with the contexts that this graph has of it."""
        return self._spec

    @property
    def name(self) -> str:
        return self._runner.name

    @property
    def limits(self) -> Limits:
        """One number of positions, no padding beyond it, no alignment."""
        return Limits(n_positions=self._runner.n_positions, free_padding=False, aligns=False)

    @property
    def silence_keys(self) -> None:
        """None: the graph has no positions beyond its window."""
        return

    def open(self) -> Self:
        """Load the graph; raises what its runner raises."""
        self._runner.open()
        return self

    def close(self) -> None:
        self._runner.close()

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> FixedState:
        """Pad features with zero rows to the graph's positions; see `core.protocols.Decoder`.

        Raises:
            ShapeError: features that are longer, padding beyond them, or of another model.
        """
        n_positions = check_features(audio_features, paddings, n_positions, self._spec)
        check_positions(self._runner.n_positions, int(n_positions.max()))
        target = max(padding.pad_to or 0 for padding in paddings)
        if target > self._runner.n_positions:
            raise ShapeError(
                f"decoder takes {self._runner.n_positions} positions and cannot be padded to "
                f"{target}; leave --pad-to out and use --repetition-penalty"
            )
        batch = audio_features.shape[0]
        return FixedState(
            audio_features=cut_to(audio_features, n_positions, self._runner.n_positions),
            tokens=np.zeros((batch, 0), np.int64),
            first=np.zeros(batch, np.int64),
        )

    def step(
        self,
        tokens: IntArray,
        state: FixedState,
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, FixedState]:
        """Run the history and the new tokens; see `core.protocols.Decoder`.

        Raises:
            OptionError: alignment is asked for.
        """
        if alignment:
            raise OptionError(
                f"{self.name} gives no cross-attention weights; use --decoder-backend cached"
            )
        first = check_step(tokens, state, positions, first, self._spec)
        state = FixedState(
            audio_features=state.audio_features,
            tokens=np.concatenate([state.tokens, tokens], axis=1),
            first=first,
        )
        logits = self._runner.run(self._left_aligned(state), state.audio_features)
        n_before = state.n_tokens - tokens.shape[1]
        # Where a row is padded on the left, what is asked for there means nothing: any row will do.
        columns = np.maximum(n_before + positions[None, :] - first[:, None], 0)
        looked_at = np.take_along_axis(logits, columns[:, :, None], axis=1)
        return StepOutput(looked_at, logsumexp(looked_at)), state

    def _left_aligned(self, state: FixedState) -> IntArray:
        """`(batch, length)` int64: each row's real tokens from position 0, then zeros."""
        fed = np.zeros((state.batch, self._runner.length), np.int64)
        for row, start in enumerate(state.first.tolist()):
            fed[row, : state.n_tokens - start] = state.tokens[row, start:]
        return fed

    def batch_size(self, state: FixedState) -> int:
        """Number of rows of a state."""
        return state.batch

    def select(self, state: FixedState, rows: IntArray) -> FixedState:
        """State of the given rows `(n,)` int64, in that order, repeats allowed (beams)."""
        return FixedState(state.audio_features[rows], state.tokens[rows], state.first[rows])

    def rewind(self, state: FixedState, n_tokens: int) -> FixedState:
        """State cut back to its first `n_tokens` tokens (rejected drafts)."""
        check_rewind(state, n_tokens)
        first = state.first if n_tokens else np.zeros_like(state.first)
        return replace(state, tokens=state.tokens[:, :n_tokens], first=first)


def check_positions(takes: int, got: int) -> None:
    """Refuse features that are longer than a fixed decoder.

    Raises:
        ShapeError: there are more positions than it takes.
    """
    if got > takes:
        raise ShapeError(
            f"decoder takes {takes} positions, encoder gives {got}; "
            f"convert with --window {-(-got // 50)}"
        )
