"""The graph that runs once per window: audio features -> every layer's cross keys and values."""

from __future__ import annotations

import numpy as np

from whisper_hailo.convert.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import FLOAT, Graph, GraphBuilder
from whisper_hailo.convert.graphs.layers import split_heads
from whisper_hailo.convert.graphs.products import Arithmetic, checkpoint_linear, linear
from whisper_hailo.convert.graphs.weights import ready


def cross_kv_graph(checkpoint: Checkpoint, arithmetic: Arithmetic = Arithmetic.FLOAT) -> Graph:
    """Author the cross-attention key and value projections of all decoder layers.

    Input `audio_features (batch, n_positions, d_model)`; outputs for each layer i
    `cross_key_{i} (batch, heads, head_size, n_positions + 1)`, stored turned so that a decoder
    step multiplies without moving it, and `cross_value_{i} (batch, heads, n_positions + 1,
    head_size)`. The last position is that of a zero row of audio features: key 0 (keys have no
    bias), value b_v. One such position with score ln P is worth P zero rows.

    Args:
        checkpoint: where the arrays come from.
        arithmetic: of the projections.
    """
    dims = checkpoint.config.dims
    b = GraphBuilder("whisper_cross_kv")
    features = b.input("audio_features", FLOAT, ("batch", "n_positions", dims.d_model))
    padded = _one_zero_row_more(b, features, dims.d_model)
    n_columns = "n_positions + 1"
    for i in range(dims.n_decoder_layers):
        attention = f"decoder.layers.{i}.encoder_attn"
        k_proj = checkpoint_linear(checkpoint, f"{attention}.k_proj", bias=False)
        v_proj = checkpoint_linear(checkpoint, f"{attention}.v_proj")
        key = linear(b, padded, f"{attention}.k", k_proj, arithmetic)
        value = linear(b, padded, f"{attention}.v", v_proj, arithmetic)
        heads, size = dims.n_decoder_heads, dims.head_size
        split_heads(b, key, f"cross_key_{i}", heads, turned=True)
        split_heads(b, value, f"cross_value_{i}", heads)
        b.output(f"cross_key_{i}", FLOAT, ("batch", heads, size, n_columns))
        b.output(f"cross_value_{i}", FLOAT, ("batch", heads, n_columns, size))
    return b.build()


def _one_zero_row_more(b: GraphBuilder, features: str, d_model: int) -> str:
    """`(batch, n, d)` -> `(batch, n + 1, d)`, the last row zeros."""
    batch = b.op("Shape", (features,), "batch", start=0, end=1)
    shape = b.op("Concat", (batch, b.constant([1, d_model])), "zero_row.shape", axis=0)
    zero = b.weight("zero", ready(np.zeros((1,), np.float32)))
    row = b.op("Expand", (zero, shape), "zero_row")
    return b.op("Concat", (features, row), "padded_features", axis=1)
