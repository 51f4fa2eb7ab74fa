"""Attention by the runtime's fused operators.

All queries come with 1 / sqrt(head size) folded into their projection, so the scale is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whisper_hailo.convert.graphs.builder import INT32, MICROSOFT, GraphBuilder
from whisper_hailo.convert.graphs.layers import in_float, in_half

SELF_BIAS = "self_bias.cut"
"""What is added to the scores of the cache, `(batch, 1, n, n_columns)`."""

HALF_BIAS = "cross_bias.half"
"""What is added to the scores of the audio, in float16."""


def attend(
    b: GraphBuilder, name: str, qkv: tuple[str, str, str], n_heads: int, *, bias: str = ""
) -> str:
    """Softmax attention of all heads, which never holds the whole matrix of scores.

    Args:
        b: the graph.
        name: name of the result `(batch, n, d_model)`.
        qkv: query `(batch, n, d_model)`, and key and value `(batch, n_keys, d_model)`, or apart as
            `(batch, heads, n_keys, head_size)`.
        n_heads: number of heads.
        bias: what is added to the scores, `(batch, 1, n, n_keys)`.
    """
    inputs = [*qkv] + (["", "", bias] if bias else [])
    return b.op("MultiHeadAttention", inputs, name, domain=MICROSOFT, num_heads=n_heads, scale=1.0)


def attend_to_cache(b: GraphBuilder, name: str, qkv: str, layer: int, n_heads: int) -> str:
    """Causal attention over a cache to which this step's keys and values are added.

    Where the runtime is given the same memory for past and present, it adds them in place. With
    one key and value for each query, "grouped" attention is the ordinary one.

    Args:
        b: the graph, with the inputs `past_key_{i}`, `past_value_{i}`, `last_column`, `n_columns`
            and the value `SELF_BIAS`.
        name: name of the result `(batch, n, d_model)`.
        qkv: query, key and value side by side, `(batch, n, 3 d_model)`.
        layer: i.
        n_heads: number of heads.
    """
    cache = (f"past_key_{layer}", f"past_value_{layer}")
    unused = ("",) * 3
    inputs = (qkv, "", "", *cache, "last_column", "n_columns", *unused, SELF_BIAS)
    outputs = (name, f"present_key_{layer}", f"present_value_{layer}")
    return b.ops(
        "GroupQueryAttention",
        inputs,
        outputs,
        domain=MICROSOFT,
        num_heads=n_heads,
        kv_num_heads=n_heads,
        scale=1.0,
    )[0]


def attend_to_codes(b: GraphBuilder, name: str, query: str, layer: int, n_heads: int) -> str:
    """Attention to keys and values of the audio that are held in 8 bits.

    Every channel of a window has a scale of its own. The operator takes the same scales for all
    rows of a batch: so it is told that they are one, and the query takes the keys' scales, the
    result those of the values.

    Args:
        b: the graph, with the inputs of `_attend_to_audio`, the keys' and values' scales, and
            `cross_bias`.
        name: name of the result `(batch, n, d_model)`.
        query: `(batch, n, d_model)`, with the scales of the keys.
        layer: i.
        n_heads: number of heads.
    """
    one = b.constant(np.ones(1, np.float32))
    codes = _attend_to_audio(
        b,
        f"{name}.codes",
        query,
        layer=layer,
        n_heads=n_heads,
        more=("cross_bias", "", one, one),
        kv_cache_bit_width=8,
        k_quant_type="PER_TENSOR",
        v_quant_type="PER_TENSOR",
    )
    return b.op("Mul", (codes, f"cross_value_scale_{layer}"), name)


def attend_to_half(b: GraphBuilder, name: str, query: str, layer: int, n_heads: int) -> str:
    """Attention to keys and values of the audio that are held in float16.

    Args:
        b: the graph, with the inputs of `_attend_to_audio`, and `HALF_BIAS`.
        name: name of the result `(batch, n, d_model)` float32.
        query: `(batch, n, d_model)` float32.
        layer: i.
        n_heads: number of heads.
    """
    asked = in_half(b, query)
    mixed = _attend_to_audio(
        b, f"{name}.in_half", asked, layer=layer, n_heads=n_heads, more=(HALF_BIAS,)
    )
    return in_float(b, mixed, name)


def _attend_to_audio(
    b: GraphBuilder,
    name: str,
    query: str,
    *,
    layer: int,
    n_heads: int,
    more: tuple[str, ...],
    **attrs: Any,  # noqa: ANN401 - attributes are numbers or words
) -> str:
    """Attention of the runtime's "grouped" kind to a cache to which this step adds nothing.

    Args:
        b: the graph, with the inputs `cross_key_{i}`, `cross_value_{i}`, `last_position`,
            `n_positions` and `nothing_new`.
        name: name of the result.
        query: `(batch, n, d_model)`.
        layer: i.
        n_heads: number of heads.
        more: further inputs: what is added to the scores, and where there are any, a blank and the
            scales of keys and values.
        attrs: further attributes.
    """
    cache = (f"cross_key_{layer}", f"cross_value_{layer}")
    new, lengths = ("nothing_new",) * 2, ("last_position", "n_positions")
    return b.ops(
        "GroupQueryAttention",
        (query, *new, *cache, *lengths, "", "", "", *more),
        (name, f"same_key_{layer}", f"same_value_{layer}"),
        domain=MICROSOFT,
        num_heads=n_heads,
        kv_num_heads=n_heads,
        scale=1.0,
        causal=0,
        **attrs,
    )[0]


def attend_in_half(b: GraphBuilder, name: str, qkv: tuple[str, str, str], n_heads: int) -> str:
    """What `attend` gives for as many keys as queries, computed in float16.

    Args:
        b: the graph.
        name: name of the result `(batch, n, d_model)` float32.
        qkv: query, key and value `(batch, n, d_model)` float32.
        n_heads: number of heads.
    """
    last, n_keys = _lengths(b, qkv[0])
    halves = tuple(in_half(b, part) for part in qkv)
    mixed = b.op(
        "GroupQueryAttention",
        (*halves, "", "", last, n_keys),
        f"{name}.in_half",
        domain=MICROSOFT,
        num_heads=n_heads,
        kv_num_heads=n_heads,
        scale=1.0,
        causal=0,
    )
    return in_float(b, mixed, name)


def _lengths(b: GraphBuilder, x: str) -> tuple[str, str]:
    """Of `(batch, n, d_model)`: n - 1 for each row `(batch,)`, and n, both int32."""
    sizes = [b.op("Shape", (x,), f"{x}.size_{at}", start=at, end=at + 1) for at in (0, 1)]
    n = b.op("Cast", (sizes[1],), f"{x}.n", to=INT32)
    last = b.op("Sub", (n, b.constant(np.array([1], np.int32))), f"{x}.last")
    return b.op("Expand", (last, sizes[0]), f"{x}.last_of_each"), n
