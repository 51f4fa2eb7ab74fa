"""Do the arrays that a backend is handed fit its model? Each message names what was expected."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND, FloatArray, IntArray


def check_mel(mel: FloatArray, spec: ModelSpec, takes: int | None = None) -> None:
    """Check log-mel windows against the encoder's context, or the frames that a fixed one takes."""
    dims = spec.dims
    if mel.ndim != 3 or mel.shape[1] != dims.n_mels:
        raise ShapeError(
            f"mel has shape {mel.shape}, this encoder takes (batch, {dims.n_mels}, n_frames)"
        )
    n_frames = mel.shape[2]
    if n_frames > dims.max_frames:
        raise ShapeError(
            f"mel has {n_frames} frames, this encoder takes {dims.max_frames} "
            f"({dims.max_window_s:g} s window); use --window {dims.max_window_s:g} or less"
        )
    if n_frames == 0 or n_frames % 2:
        raise ShapeError(
            f"mel has {n_frames} frames, expected an even number of at least 2 "
            f"({FRAMES_PER_SECOND} are one second)"
        )
    if takes is not None and n_frames != takes:
        window_s = takes / FRAMES_PER_SECOND
        raise ShapeError(
            f"mel has {n_frames} frames, this encoder takes {takes} ({window_s:g} s window); "
            f"use --window {window_s:g}"
        )


def check_features(
    features: FloatArray,
    paddings: tuple[Padding, ...],
    n_positions: IntArray | None,
    spec: ModelSpec,
) -> IntArray:
    """Check a batch of audio features; returns the true number of positions of each row."""
    if features.ndim != 3 or features.shape[2] != spec.dims.d_model or features.shape[1] == 0:
        raise ShapeError(
            f"audio features have shape {features.shape}, this decoder takes "
            f"(batch, n_audio_ctx, {spec.dims.d_model}); encoder and decoder must be of one model"
        )
    batch, n_audio_ctx, _ = features.shape
    if len(paddings) != batch:
        raise ShapeError(f"{len(paddings)} paddings for {batch} rows of audio features")
    if n_positions is None:
        return np.full(batch, n_audio_ctx, np.int64)
    if n_positions.shape != (batch,) or n_positions.min() < 1 or n_positions.max() > n_audio_ctx:
        raise ShapeError(
            f"true positions are {n_positions.tolist()}, expected {batch} numbers "
            f"from 1 to {n_audio_ctx}"
        )
    return n_positions


def check_positions(takes: int, got: int) -> None:
    """Refuse features that are longer than a fixed decoder."""
    if got > takes:
        raise ShapeError(
            f"decoder takes {takes} positions, encoder gives {got}; "
            f"convert with --window {-(-got // 50)}"
        )


class StateSize(Protocol):
    """Every decoder's state; left padding counts as tokens, `first` `(batch,)` ends each row's."""

    @property
    def batch(self) -> int: ...

    @property
    def n_tokens(self) -> int: ...

    @property
    def first(self) -> IntArray: ...


def check_step(
    tokens: IntArray, state: StateSize, positions: IntArray, first: IntArray | None, spec: ModelSpec
) -> IntArray:
    """Check one step's arrays; returns the column of each row's first real token."""
    if tokens.ndim != 2 or tokens.shape[0] != state.batch or tokens.shape[1] == 0:
        raise ShapeError(f"tokens have shape {tokens.shape}, expected ({state.batch}, 1 or more)")
    n_tokens = tokens.shape[1]
    # Plain Python: at every step NumPy's reductions would have to be fetched into the cache anew,
    # which the weights have just been read through.
    ids = tokens.ravel().tolist()
    if min(ids) < 0 or max(ids) >= spec.dims.n_vocab:
        raise ShapeError(
            f"token ids go from {min(ids)} to {max(ids)}, this decoder has "
            f"{spec.dims.n_vocab}; tokenizer and model must be of one checkpoint"
        )
    if positions.ndim != 1 or not all(0 <= place < n_tokens for place in positions.tolist()):
        raise ShapeError(f"positions are {positions.tolist()}, expected indices below {n_tokens}")
    if state.n_tokens + n_tokens > spec.dims.n_text_ctx:
        raise ShapeError(
            f"{state.n_tokens + n_tokens} tokens, this decoder's text context holds "
            f"{spec.dims.n_text_ctx}; use a shorter prompt or a smaller token budget"
        )
    if first is None:
        return state.first
    if state.n_tokens or first.shape != (state.batch,) or np.any((first < 0) | (first >= n_tokens)):
        raise ShapeError(
            f"first is {first.tolist()} after {state.n_tokens} tokens; it belongs to the first "
            f"step, one column below {n_tokens} for each of {state.batch} rows"
        )
    return np.ascontiguousarray(first, dtype=np.int64)


def check_rewind(state: StateSize, n_tokens: int) -> None:
    """Refuse to cut a state to more tokens than it has."""
    if not 0 <= n_tokens <= state.n_tokens:
        raise ShapeError(f"cannot rewind to {n_tokens} tokens, the cache holds {state.n_tokens}")
