"""Wrappers of encoders and decoders that count, time or change their work."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from whisper_hailo.core.protocols import (
    AnyDecoder,
    Closing,
    Encoder,
    Limits,
    Padding,
    SilenceKeys,
    StepOutput,
)
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray


class EncoderWrapper(Closing):
    """Delegates to an encoder; a subclass adds `encode`.

    Args:
        encoder: the wrapped encoder; its owner opens and closes it.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def spec(self) -> ModelSpec:
        """Description of the model."""
        return self._encoder.spec

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def n_frames(self) -> int | None:
        return self._encoder.n_frames

    def close(self) -> None:
        """Do nothing; the owner closes the wrapped encoder."""


class ZeroRows(EncoderWrapper):
    """An encoder that appends rows of zeros to its features, as the study's simulation did.

    Args:
        encoder: the wrapped encoder; its owner opens and closes it.
        pad_to: positions in all; longer features stay as they are.
    """

    def __init__(self, encoder: Encoder, pad_to: int) -> None:
        super().__init__(encoder)
        self._pad_to = pad_to

    def encode(self, mel: FloatArray) -> FloatArray:
        """Return features `(batch, max(n_positions, pad_to), d_model)`."""
        features = self._encoder.encode(mel)
        n_missing = max(0, self._pad_to - features.shape[1])
        return np.pad(features, ((0, 0), (0, n_missing), (0, 0)))


class DecoderWrapper(Closing):
    """Delegates to a decoder; a subclass changes `step`.

    Args:
        decoder: the wrapped decoder, opened and closed with this one. States are those of the
            wrapped decoder.
    """

    def __init__(self, decoder: AnyDecoder) -> None:
        self._decoder = decoder

    @property
    def spec(self) -> ModelSpec:
        """Description of the model."""
        return self._decoder.spec

    @property
    def name(self) -> str:
        return self._decoder.name

    @property
    def limits(self) -> Limits:
        return self._decoder.limits

    @property
    def silence_keys(self) -> SilenceKeys | None:
        return self._decoder.silence_keys

    def open(self) -> Self:
        self._decoder.open()
        return self

    def close(self) -> None:
        self._decoder.close()

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> Any:  # noqa: ANN401
        return self._decoder.start(audio_features, paddings, n_positions)

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, Any]:
        return self._decoder.step(
            tokens, state, positions, first=first, alignment=alignment
        )

    def batch_size(self, state: Any) -> int:  # noqa: ANN401
        """Return the number of rows of a state."""
        return self._decoder.batch_size(state)

    def select(self, state: Any, rows: IntArray) -> Any:  # noqa: ANN401
        return self._decoder.select(state, rows)

    def rewind(self, state: Any, n_tokens: int) -> Any:  # noqa: ANN401
        """Return the state after its first tokens."""
        return self._decoder.rewind(state, n_tokens)
