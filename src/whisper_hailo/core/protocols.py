"""Protocols between the stages: backends implement them, the pipeline joins them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray


class Closing(Protocol):
    """Base of resources: constructors are cheap, a `with` block opens and closes them."""

    def open(self) -> Self:
        """Acquire the resource; by default there is none."""
        return self

    def close(self) -> None:
        """Release the resource; harmless when nothing is open."""

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


@dataclass(frozen=True, eq=False)
class SilenceKeys:
    """A checkpoint's encoder output for silence after speech, as a few rows.

    A decoder was trained on 30 s windows, whose end is mostly silence, and rests its attention
    there. A row whose cross-attention score is raised by ln n weighs as much as n equal rows.

    Attributes:
        features: `(n_keys, d_model)` float32.
        shares: `(n_keys,)` float32 fractions of the silence that each row stands for; sum 1.
    """

    features: FloatArray
    shares: FloatArray

    @cached_property
    def log_shares(self) -> FloatArray:
        """The natural logarithms of the shares."""
        return np.log(self.shares)

    def split(self, n: int) -> SilenceKeys:
        """Return keys of which each stands n times, for an nth of its share."""
        features = np.tile(self.features, (n, 1))
        return SilenceKeys(features, np.tile(self.shares / n, n))

    def repeat_rows(self, n_rows: int) -> FloatArray:
        """Return `(n_rows, d_model)`: each row repeated by its share."""
        middles = (np.arange(n_rows) + 0.5) / max(1, n_rows)
        rows = np.searchsorted(np.cumsum(self.shares), middles)
        last = len(self.features) - 1
        # Rounded shares may sum to less than 1.
        return self.features[np.minimum(rows, last)]


@dataclass(frozen=True, slots=True)
class Padding:
    """What follows the audio features of a row in cross-attention, and up to where.

    Attributes:
        pad_to: target number of positions, or `None` for no padding; features are never cut.
        silence: keys that stand for the positions added; `None` adds zero rows. A zero row has key
            0 (no bias in `k_proj`) and value `b_v`, so P of them are one extra key with score ln P.
    """

    pad_to: int | None
    silence: SilenceKeys | None = None

    def n_added(self, n_positions: int) -> int:
        """Return how many positions follow `n_positions` of audio."""
        if self.pad_to is None:
            return 0
        return max(0, self.pad_to - n_positions)


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The result of one decoder pass at K positions; arrays are valid until the next pass.

    Attributes:
        logits: `(batch, K, n_vocab)` float32; the rules change them in place.
        logsumexp: `(batch, K)` float32: `logits[b, k, t] - logsumexp[b, k]` is the log-probability
            of t.
        alignment: `(batch, n_alignment_heads, n_tokens, n_positions)` float32 cross-attention
            weights over the real positions, if asked for.
    """

    logits: FloatArray
    logsumexp: FloatArray
    alignment: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a decoder's graph can do, known before it is opened.

    Attributes:
        n_positions: number of encoder positions that a fixed graph takes; shorter features are
            padded to it with zero rows. `None` for any number.
        free_padding: zero rows cost one position (our graphs); otherwise they are really there.
        aligns: `step` can give the alignment heads' weights.
    """

    n_positions: int | None = None
    free_padding: bool = True
    aligns: bool = True


StateT = TypeVar("StateT")


class _Network(Closing, Protocol):
    """A half of a model; `open` raises `ModelError` when its files are missing or broken."""

    @property
    def spec(self) -> ModelSpec:
        """The model's description."""

    @property
    def name(self) -> str:
        """A short name for results, such as `onnx-fp32` or `cached-int8`."""


class Encoder(_Network, Protocol):
    """Log-mel in, audio features out."""

    @property
    def n_frames(self) -> int | None:
        """The number of log-mel frames that a fixed graph takes; `None` for any even number."""

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode log-mel windows `(batch, n_mels, n_frames)` float32, `n_frames` even.

        Returns:
            audio features `(batch, n_frames / 2, d_model)` float32.

        Raises:
            ShapeError: the window does not fit this encoder.
        """


class Encoding(Protocol):
    """Windows that are being encoded asynchronously."""

    @property
    def took_ms(self) -> float:
        """The time on the device, once the result is there."""

    def result(self) -> FloatArray:
        """Wait for the audio features, or raise the error; to be called once."""


@runtime_checkable
class AsyncEncoder(Encoder, Protocol):
    """An encoder that runs on its own device while the caller works."""

    def encode_async(self, mel: FloatArray) -> Encoding:
        """Start encoding; `mel` may not be changed until the result is there."""


class Decoder(_Network, Protocol[StateT]):
    """Autoregressive decoder with explicit state and a real batch dimension."""

    @property
    def limits(self) -> Limits:
        """What the decoder's graph can do."""

    @property
    def silence_keys(self) -> SilenceKeys | None:
        """The encoder's output for silence; `None` pads with zero rows."""

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> StateT:
        """Start decoding a batch; return a state with an empty self-attention cache.

        Args:
            audio_features: `(batch, n_audio_ctx, d_model)` float32.
            paddings: one policy per row.
            n_positions: `(batch,)` int64 true number of positions per row; `None` means all.

        Raises:
            ShapeError: the features do not fit this decoder.
        """

    def step(
        self,
        tokens: IntArray,
        state: StateT,
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, StateT]:
        """Append tokens to the cache and project some of their positions to the vocabulary.

        Args:
            tokens: `(batch, n_tokens)` int64; of several rows one each after the first step.
            state: from `start` or the last `step`; unchanged, and may be used again.
            positions: `(K,)` int64 indices into this step's tokens.
            first: `(batch,)` int64, only on the first step: shorter prompts are padded on the left,
                `first[b]` is the column of row b's first real token. `None` means 0.
            alignment: also return the alignment heads' cross-attention weights.

        Raises:
            ShapeError: more tokens than the text context holds.
        """

    def batch_size(self, state: StateT) -> int:
        """Return the number of rows of a state."""

    def select(self, state: StateT, rows: IntArray) -> StateT:
        """Return the state of rows `(n,)` int64, in that order, repeats allowed (beams)."""

    def rewind(self, state: StateT, n_tokens: int) -> StateT:
        """Return the state cut back to its first `n_tokens` cached tokens (rejected drafts).

        The given state, and those between the two, may not be used again.
        """


AnyDecoder: TypeAlias = Decoder[Any]
"""A decoder whose state the caller passes through."""

DecoderState: TypeAlias = Any
