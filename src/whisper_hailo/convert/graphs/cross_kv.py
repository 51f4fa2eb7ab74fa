"""The graph that runs once per window: audio features -> every layer's cross keys and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import ready_weight
from whisper_hailo.convert.graphs.builder import FLOAT, UINT8, Graph, WhisperBuilder
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    Rounded,
    Seen,
    joined,
    linear,
    seen_by_several,
    stored_linear,
)
from whisper_hailo.core.spec import AUDIO_BLOCK, SIGNLESS_ZERO, Dimensions

_SMALLEST = 1e-20
"""A channel that is smaller everywhere counts as silent."""

_POSITIONS_AT_ONCE = 16
"""Positions whose largest values are taken together first."""


def cross_kv_graph(checkpoint: Checkpoint, arithmetic: Arithmetic = Arithmetic.FLOAT) -> Graph:
    """Author the cross-attention key and value projections of all decoder layers.

    Input `audio_features (batch, n_positions, d_model)`; outputs for each layer i
    `cross_key_{i}` and `cross_value_{i} (batch, heads, n_positions + 1, head_size)`. The last
    position is that of a zero row of audio features: key 0 (keys have no bias), value b_v. One such
    position with score ln P is worth P zero rows.

    Where the arithmetic of the projections is not float, these are 8-bit codes whose zero is
    `SIGNLESS_ZERO`, and `cross_key_scale_{i}` and `cross_value_scale_{i} (batch, 1, heads,
    head_size)` what one step of each channel is worth in each row. Keys of codes come in blocks,
    `(batch, heads, blocks, head_size, AUDIO_BLOCK)`: `n_positions + 1` is a multiple of it.
    """
    b = WhisperBuilder("whisper_cross_kv", checkpoint)
    heads, size = b.dims.n_decoder_heads, b.dims.head_size
    features = b.input("audio_features", FLOAT, ("batch", "n_positions", b.dims.d_model))
    seen = _one_zero_row_more(b, seen_by_several(b, features, arithmetic))
    in_codes = arithmetic is not Arithmetic.FLOAT
    for i in range(b.dims.n_decoder_layers):
        attention = f"decoder.layers.{i}.encoder_attn"
        key = stored_linear(b, f"{attention}.k_proj", bias=False)
        value = stored_linear(b, f"{attention}.v_proj")
        names = (f"cross_key_{i}", f"cross_value_{i}")
        if in_codes:
            both = linear(b, seen, f"{attention}.kv", joined(key, value), arithmetic)
            codes = _in_8_bits(b, both, i)
            parts = b.ops("Split", (codes,), [f"{name}.flat" for name in names], axis=-1)
        else:
            parts = (
                linear(b, seen, f"{attention}.k", key),
                linear(b, seen, f"{attention}.v", value),
            )
        for name, part in zip(names, parts, strict=True):
            in_blocks = in_codes and name == names[0]
            # 0 keeps an axis, also one of no rows, where -1 would be any number.
            shape = [0, -1, AUDIO_BLOCK, heads, size] if in_blocks else [0, 0, heads, size]
            apart = b.op("Reshape", (part, b.constant(shape)), f"{name}.apart")
            b.op("Transpose", (apart,), name, perm=[0, 3, 1, 4, 2] if in_blocks else [0, 2, 1, 3])
            b.output(name, *audio_form(name, b.dims, in_codes=in_codes))
    return b.build()


def audio_form(name: str, dims: Dimensions, *, in_codes: bool) -> tuple[int, tuple[int | str, ...]]:
    """Return type and shape of `cross_key_{i}` or `cross_value_{i}`."""
    heads, size = dims.n_decoder_heads, dims.head_size
    if in_codes and name.startswith("cross_key"):
        return UINT8, ("windows", heads, "blocks", size, AUDIO_BLOCK)
    return UINT8 if in_codes else FLOAT, ("windows", heads, "n_positions + 1", size)


def _in_8_bits(b: WhisperBuilder, both: str, layer: int) -> str:
    """Write codes from 1 to 255 of keys and values side by side; their scales are outputs.

    The largest value of a channel in the window becomes 127 steps. A channel of zeros has a scale
    that nothing is divided by in vain. Pooling over some positions leaves few rows for the
    reduction over the middle axis, which the runtime does five times as slowly.
    """
    size = b.op("Abs", (both,), f"{both}.absolute")
    picture = b.op("Unsqueeze", (size, b.constant([1])), f"{both}.picture")
    window = [_POSITIONS_AT_ONCE, 1]
    pooled = b.op(
        "MaxPool", (picture,), f"{both}.pooled", kernel_shape=window, strides=window, ceil_mode=1
    )
    largest = b.op("ReduceMax", (pooled,), f"{both}.largest", axes=[1, 2], keepdims=0)
    row = b.op("Unsqueeze", (largest, b.constant([1])), f"{both}.largest_row")
    some = b.op("Max", (row, b.constant(_SMALLEST)), f"{both}.some")
    step = b.op("Div", (some, b.constant(127.0)), f"{both}.step")
    outputs = [f"cross_{part}_scale_{layer}" for part in ("key", "value")]
    parts = b.ops("Split", (step,), [f"{output}.flat" for output in outputs], axis=-1)
    for part, output in zip(parts, outputs, strict=True):
        shape = (1, b.dims.n_decoder_heads, b.dims.head_size)
        b.op("Reshape", (part, b.constant([0, *shape])), output)
        b.output(output, FLOAT, ("windows", *shape))
    steps = b.op("Div", (both, step), f"{both}.steps")
    zero = b.constant(np.array(SIGNLESS_ZERO, np.uint8))
    return b.op("QuantizeLinear", (steps, b.constant(1.0), zero), f"{both}.steps_8")


def _one_zero_row_more(b: WhisperBuilder, x: Seen) -> Seen:
    """Write `(batch, n, d_model)` -> `(batch, n + 1, d_model)`, the last row zeros."""
    if isinstance(x, Rounded):
        rows, zero = x.codes, x.zero
    else:
        rows, zero = x, b.weight("zero", ready_weight(np.zeros((1,), np.float32)))
    batch = b.op("Shape", (rows,), "batch", start=0, end=1)
    shape = b.op("Concat", (batch, b.constant([1, b.dims.d_model])), "zero_row.shape", axis=0)
    row = b.op("Expand", (zero, shape), "zero_row")
    padded = b.op("Concat", (rows, row), "padded_features", axis=1)
    return replace(x, codes=padded) if isinstance(x, Rounded) else padded
