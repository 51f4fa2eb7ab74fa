"""Padding of audio features for decoders whose graphs have no mask: real rows behind the audio."""

from __future__ import annotations

import numpy as np

from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.types import FloatArray, IntArray


def pad_features(
    features: FloatArray, paddings: tuple[Padding, ...], n_positions: IntArray
) -> FloatArray:
    """Pad every row to its target with real rows, of silence or of zeros, all equally long.

    `features` are `(batch, n_audio_ctx, d_model)`, of which the first `n_positions` `(batch,)` of
    each row are audio.

    Raises:
        ShapeError: the rows are not equally long with their padding.
    """
    counts = n_positions.tolist()
    targets = {
        n + padding.n_added(n) for padding, n in zip(paddings, counts, strict=True)
    }
    if len(targets) != 1:
        raise ShapeError(
            f"windows of one batch have {sorted(targets)} positions with their padding, this "
            "decoder cannot mask any; use windows of one length, or one padding target over all"
        )
    (target,) = targets
    padded = pad_with_zeros(features, n_positions, target)
    for row, padding, n in zip(padded, paddings, counts, strict=True):
        if padding.silence is not None and n < target:
            row[n:] = padding.silence.repeat_rows(target - n)
    return padded


def pad_with_zeros(
    features: FloatArray, n_positions: IntArray, target: int
) -> FloatArray:
    """Return `(batch, target, d_model)` float32, C-contiguous: true positions, then zero rows.

    `n_positions`, `(batch,)` int64, are those of each row, at most `target`.
    """
    batch, n_audio_ctx, d_model = features.shape
    if n_audio_ctx == target and np.all(n_positions == target):
        return np.ascontiguousarray(features, dtype=np.float32)
    padded = np.zeros((batch, target, d_model), np.float32)
    for row, n in enumerate(n_positions.tolist()):
        padded[row, :n] = features[row, :n]
    return padded
