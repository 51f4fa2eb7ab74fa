"""Attention by the runtime's fused operators.

All queries come with 1 / sqrt(head size) folded into their projection, so the scale is one.
"""

from __future__ import annotations

import numpy as np

from whisper_hailo.convert.graphs.builder import MICROSOFT, GraphBuilder

SELF_BIAS = "self_bias.cut"
"""What is added to the scores of the cache, `(batch, 1, n, n_columns)`."""


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


def attend_in_8_bits(b: GraphBuilder, name: str, query: str, layer: int, n_heads: int) -> str:
    """Attention to keys and values of the audio that are held in 8 bits.

    "Grouped" attention to a cache to which this step adds nothing. Every channel of a window has a
    scale of its own. The operator takes the same scales for all rows of a batch: so it is told
    that they are one, and the query takes the keys' scales, the result those of the values.

    Args:
        b: the graph, with the inputs `cross_key_{i}`, `cross_value_{i}`, their scales,
            `last_position`, `n_positions`, `nothing_new` and `cross_bias`.
        name: name of the result `(batch, n, d_model)`.
        query: `(batch, n, d_model)`, with the scales of the keys.
        layer: i.
        n_heads: number of heads.
    """
    cache = (f"cross_key_{layer}", f"cross_value_{layer}")
    one = b.constant(np.ones(1, np.float32))
    new = ("nothing_new",) * 2
    lengths = ("last_position", "n_positions")
    outputs = (f"{name}.codes", f"same_key_{layer}", f"same_value_{layer}")
    codes = b.ops(
        "GroupQueryAttention",
        (query, *new, *cache, *lengths, "", "", "", "cross_bias", "", one, one),
        outputs,
        domain=MICROSOFT,
        num_heads=n_heads,
        kv_num_heads=n_heads,
        scale=1.0,
        causal=0,
        kv_cache_bit_width=8,
        k_quant_type="PER_TENSOR",
        v_quant_type="PER_TENSOR",
    )[0]
    return b.op("Mul", (codes, f"cross_value_scale_{layer}"), name)
