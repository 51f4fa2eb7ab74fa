"""The graph that runs once per window: audio features -> every layer's cross keys and values."""

from __future__ import annotations

import numpy as np

from whisper_hailo.convert.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import FLOAT, Graph, GraphBuilder
from whisper_hailo.convert.graphs.layers import split_heads
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    checkpoint_linear,
    joined,
    linear,
)
from whisper_hailo.convert.graphs.weights import ready


def cross_kv_graph(checkpoint: Checkpoint, arithmetic: Arithmetic = Arithmetic.FLOAT) -> Graph:
    """Author the cross-attention key and value projections of all decoder layers.

    Input `audio_features (batch, n_positions, d_model)`; outputs for each layer i
    `cross_key_{i}` and `cross_value_{i} (batch, heads, n_positions + 1, head_size)`. The last
    position is that of a zero row of audio features: key 0 (keys have no bias), value b_v. One such
    position with score ln P is worth P zero rows.

    Args:
        checkpoint: where the arrays come from.
        arithmetic: of the projections.
    """
    dims = checkpoint.config.dims
    b = GraphBuilder("whisper_cross_kv")
    features = b.input("audio_features", FLOAT, ("batch", "n_positions", dims.d_model))
    padded = _one_zero_row_more(b, features, dims.d_model)
    for i in range(dims.n_decoder_layers):
        attention = f"decoder.layers.{i}.encoder_attn"
        weights = joined(
            checkpoint_linear(checkpoint, f"{attention}.k_proj", bias=False),
            checkpoint_linear(checkpoint, f"{attention}.v_proj"),
        )
        both = linear(b, padded, f"{attention}.kv", weights, arithmetic)
        names = (f"cross_key_{i}", f"cross_value_{i}")
        parts = b.ops("Split", (both,), [f"{name}.flat" for name in names], axis=-1)
        heads, size = dims.n_decoder_heads, dims.head_size
        for name, part in zip(names, parts, strict=True):
            split_heads(b, part, name, heads, size)
            b.output(name, FLOAT, ("batch", heads, "n_positions + 1", size))
    return b.build()


def _one_zero_row_more(b: GraphBuilder, features: str, d_model: int) -> str:
    """`(batch, n, d)` -> `(batch, n + 1, d)`, the last row zeros."""
    batch = b.op("Shape", (features,), "batch", start=0, end=1)
    shape = b.op("Concat", (batch, b.constant([1, d_model])), "zero_row.shape", axis=0)
    zero = b.weight("zero", ready(np.zeros((1,), np.float32)))
    row = b.op("Expand", (zero, shape), "zero_row")
    return b.op("Concat", (features, row), "padded_features", axis=1)
