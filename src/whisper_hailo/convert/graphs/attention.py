"""Attention by the runtime's fused operators, and its weights where somebody looks at them.

All queries come with 1 / sqrt(head size) folded into their projection, so the scale is one.
"""

from __future__ import annotations

from whisper_hailo.convert.graphs.builder import MICROSOFT, GraphBuilder
from whisper_hailo.convert.graphs.layers import split_heads


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
            and `self_bias`.
        name: name of the result `(batch, n, d_model)`.
        qkv: query, key and value side by side, `(batch, n, 3 d_model)`.
        layer: i.
        n_heads: number of heads.
    """
    cache = (f"past_key_{layer}", f"past_value_{layer}")
    unused = ("",) * 3
    inputs = (qkv, "", "", *cache, "last_column", "n_columns", *unused, "self_bias")
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


def attention_weights(
    b: GraphBuilder, name: str, query_key: tuple[str, str], bias: str, shape: tuple[int, int]
) -> str:
    """Weights of all heads, `(batch, heads, n, n_keys)`; no query costs nearly nothing.

    Args:
        b: the graph.
        name: name of the result.
        query_key: `(batch, n, d_model)` and `(batch, heads, n_keys, head_size)`.
        bias: what is added to the scores, `(batch, 1, n, n_keys)`.
        shape: number of heads and their size.
    """
    query, key = query_key
    apart = split_heads(b, query, f"{name}.heads", *shape)
    turned = b.op("Transpose", (key,), f"{name}.key_turned", perm=[0, 1, 3, 2])
    scores = b.op("MatMul", (apart, turned), f"{name}.scores")
    masked = b.op("Add", (scores, bias), f"{name}.masked")
    return b.op("Softmax", (masked,), name, axis=-1)
