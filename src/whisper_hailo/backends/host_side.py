"""What our graphs do inside and others leave to the host: padded rows, log-sum-exp."""

from __future__ import annotations

import numpy as np

from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.protocols import Padding, SilenceKeys
from whisper_hailo.core.types import FloatArray, IntArray


def with_silence_keys(features: FloatArray, silence: SilenceKeys | None) -> FloatArray:
    """Append the silence keys to every row: `(batch, n_audio_ctx + n_keys, d_model)`."""
    if silence is None:
        return features
    shape = (features.shape[0], *silence.features.shape)
    return np.concatenate([features, np.broadcast_to(silence.features, shape)], axis=1)


def pad_features(
    features: FloatArray, paddings: tuple[Padding, ...], n_positions: IntArray
) -> FloatArray:
    """Pad every row to its target with real rows, of silence or of zeros.

    Such a graph listens to all it is given, so the rows of a batch must come out equally long.

    Args:
        features: `(batch, n_audio_ctx, d_model)` float32.
        paddings: one policy per row.
        n_positions: `(batch,)` int64 true number of positions of each row.

    Returns:
        `(batch, target, d_model)` float32, C-contiguous.

    Raises:
        ShapeError: rows of one batch would have different lengths.
    """
    pairs = zip(paddings, n_positions.tolist(), strict=True)
    lengths = {n + padding.n_added(n) for padding, n in pairs}
    if len(lengths) != 1:
        raise ShapeError(
            f"windows of one batch have {sorted(lengths)} positions with their padding, this "
            "decoder cannot mask any; use windows of one length, or one padding target over all"
        )
    padded = cut_to(features, n_positions, lengths.pop())
    for row, (padding, n) in enumerate(zip(paddings, n_positions.tolist(), strict=True)):
        if padding.silence is not None and n < padded.shape[1]:
            padded[row, n:] = padding.silence.repeat_rows(padded.shape[1] - n)
    return padded


def cut_to(features: FloatArray, n_positions: IntArray, target: int) -> FloatArray:
    """`(batch, target, d_model)`: the true positions of each row, then zero rows.

    Args:
        features: `(batch, n_audio_ctx, d_model)` float32.
        n_positions: `(batch,)` int64 true number of positions, each at most `target`.
        target: positions wanted.
    """
    batch, n_audio_ctx, d_model = features.shape
    if n_audio_ctx == target and np.all(n_positions == target):
        return np.ascontiguousarray(features, dtype=np.float32)
    padded = np.zeros((batch, target, d_model), np.float32)
    for row, n in enumerate(n_positions.tolist()):
        padded[row, :n] = features[row, :n]
    return padded


def logsumexp(logits: FloatArray) -> FloatArray:
    """Natural log of the sum of exponentials over the last axis, `(batch, K)` float32."""
    highest = logits.max(axis=-1, keepdims=True)
    total = np.exp(logits - highest).sum(axis=-1, dtype=np.float64)
    result: FloatArray = (highest[..., 0] + np.log(total)).astype(np.float32)
    return result
