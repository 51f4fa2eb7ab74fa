"""Checks of the arrays that a backend is given; each message names what was expected."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND, FloatArray, IntArray


def check_mel(mel: FloatArray, spec: ModelSpec, takes: int | None = None) -> None:
    """Check log-mel windows against the encoder's context, or the frames that a fixed one takes.

    Raises:
        ShapeError: they do not fit.
    """
    dims = spec.dims
    if mel.ndim != 3 or mel.shape[1] != dims.n_mels:
        raise ShapeError(
            f"mel has shape {mel.shape}, this encoder takes (batch, {dims.n_mels}, n_frames)"
        )
    n_frames = mel.shape[2]
    fewest = takes or 2
    most = takes or dims.max_frames
    # The second convolution has a stride of 2: an odd frame would be lost.
    if not fewest <= n_frames <= most or n_frames % 2:
        window_s = most / FRAMES_PER_SECOND
        less = "" if takes else " or less, an even number"
        raise ShapeError(
            f"mel has {n_frames} frames, this encoder takes {most} ({window_s:g} s window){less}; "
            f"use --window {window_s:g}"
        )


def check_features(
    features: FloatArray, n_positions: IntArray | None, spec: ModelSpec
) -> IntArray:
    """Check a batch of audio features; return the true number of positions of each row.

    Raises:
        ShapeError: they do not fit.
    """
    if (
        features.ndim != 3
        or features.shape[2] != spec.dims.d_model
        or features.shape[1] == 0
    ):
        raise ShapeError(
            f"audio features have shape {features.shape}, this decoder takes "
            f"(batch, n_audio_ctx, {spec.dims.d_model}); encoder and decoder must be from the "
            "same model"
        )
    if n_positions is None:
        return np.full(len(features), features.shape[1])
    return n_positions


def check_positions(takes: int, got: int) -> None:
    """Refuse features that are longer than a fixed decoder.

    Raises:
        ShapeError: they are.
    """
    if got > takes:
        raise ShapeError(
            f"decoder takes {takes} positions, encoder gives {got}; "
            f"convert with --window {-(-got // 50)}"
        )


class StateSize(Protocol):
    """Every decoder's state; `first` `(batch,)` is the column of each row's first real token."""

    @property
    def n_tokens(self) -> int: ...

    @property
    def first(self) -> IntArray: ...


def check_step(
    tokens: IntArray, state: StateSize, first: IntArray | None, spec: ModelSpec
) -> IntArray:
    """Check one step's tokens; return the column of each row's first real token.

    Raises:
        ShapeError: an unknown token, or more than the text context holds.
    """
    # Plain Python: the weights have just been read through the processor's cache, so the code of
    # NumPy's reductions would have to be fetched anew at every step.
    ids = tokens.ravel().tolist()
    lowest = min(ids)
    highest = max(ids)
    if lowest < 0 or highest >= spec.dims.n_vocab:
        raise ShapeError(
            f"token ids go from {lowest} to {highest}, this decoder has "
            f"{spec.dims.n_vocab}; tokenizer and model must be from the same checkpoint"
        )
    n_tokens = state.n_tokens + tokens.shape[1]
    if n_tokens > spec.dims.n_text_ctx:
        raise ShapeError(
            f"{n_tokens} tokens, this decoder's text context holds {spec.dims.n_text_ctx}; use a "
            "shorter prompt or a smaller token budget"
        )
    if first is None:
        return state.first
    return np.ascontiguousarray(first, dtype=np.int64)
