"""The cached decoder graph: tokens and cached keys and values -> logits and a longer cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whisper_hailo.convert.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import FLOAT, INT64, Graph, GraphBuilder
from whisper_hailo.convert.graphs.decoder_ends import embed_tokens, project_to_vocabulary
from whisper_hailo.convert.graphs.layers import layer_norm, merge_heads, mlp, split_heads
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    checkpoint_linear,
    fused_qkv,
    linear,
    query,
)
from whisper_hailo.core.spec import Dimensions

HeadPairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Context:
    """What every layer of the decoder shares.

    Attributes:
        self_bias: additive self-attention mask `(batch, 1, n_tokens, n_past + n_tokens)`.
        cross_bias: additive cross-attention mask `(batch, 1, 1, n_positions + 1)`.
    """

    checkpoint: Checkpoint
    dims: Dimensions
    arithmetic: Arithmetic
    self_bias: str
    cross_bias: str


def decoder_graph(
    checkpoint: Checkpoint, alignment: HeadPairs, arithmetic: Arithmetic = Arithmetic.FLOAT
) -> Graph:
    """Author the decoder; `docs/conversion.md` lists its inputs and outputs.

    Args:
        checkpoint: where the arrays come from.
        alignment: `(layer, head)` pairs whose cross-attention weights are an output.
        arithmetic: `FLOAT` or blocks.
    """
    dims = checkpoint.config.dims
    b = GraphBuilder("whisper_decoder")
    tokens = b.input("tokens", INT64, ("batch", "n_tokens"))
    first = b.input("first", INT64, ("batch",))
    positions = b.input("positions", INT64, ("K",))
    aligned = b.input("aligned", INT64, ("A",))
    cross_bias = b.input("cross_bias", FLOAT, ("batch", 1, 1, "n_positions + 1"))
    _declare_caches(b, dims)
    self_bias, text_positions = _mask_and_positions(b, tokens, first)
    context = _Context(checkpoint, dims, arithmetic, self_bias, cross_bias)
    x = embed_tokens(b, checkpoint, tokens, text_positions, arithmetic.block_bits)
    weights = []
    for i in range(dims.n_decoder_layers):
        x = _self_attention(b, x, i, context)
        x, layer_weights = _cross_attention(b, x, i, context)
        weights.append(layer_weights)
        x = mlp(b, x, f"decoder.layers.{i}", checkpoint, arithmetic)
    wanted = b.op("Gather", (x, positions), "decoder.wanted", axis=1)
    hidden = layer_norm(b, wanted, "decoder.hidden", checkpoint, "decoder.layer_norm")
    project_to_vocabulary(b, checkpoint, hidden, arithmetic.block_bits)
    _alignment(b, weights, aligned, alignment)
    return b.build()


def _declare_caches(b: GraphBuilder, dims: Dimensions) -> None:
    heads, size = dims.n_decoder_heads, dims.head_size
    for i in range(dims.n_decoder_layers):
        for part in ("key", "value"):
            b.input(f"past_{part}_{i}", FLOAT, ("batch", heads, "n_past", size))
            b.output(f"present_{part}_{i}", FLOAT, ("batch", heads, "n_past + n_tokens", size))
        b.input(f"cross_key_{i}", FLOAT, ("batch", heads, size, "n_positions + 1"))
        b.input(f"cross_value_{i}", FLOAT, ("batch", heads, "n_positions + 1", size))


def _mask_and_positions(b: GraphBuilder, tokens: str, first: str) -> tuple[str, str]:
    """Self-attention mask and text positions.

    A column is a place in the cache. Rows with shorter prompts begin at column `first`; columns
    before it are padding. A padding query may look at padding, so that no row of the mask is
    empty and softmax never sees only -inf; no real query looks at padding.

    Returns:
        bias `(batch, 1, n_tokens, n_past + n_tokens)` float32 of 0 and -inf, and text positions
        `(batch, n_tokens)` int64, 0 for padding.
    """
    n_past = b.op("Shape", ("past_key_0",), "n_past.1", start=2, end=3)
    n_tokens = b.op("Shape", (tokens,), "n_tokens.1", start=1, end=2)
    start = b.op("Squeeze", (n_past,), "n_past")
    end = b.op("Add", (start, b.op("Squeeze", (n_tokens,), "n_tokens")), "n_total")
    queries = b.op("Range", (start, end, b.constant(1)), "query_columns")
    keys = b.op("Range", (b.constant(0), end, b.constant(1)), "key_columns")
    query_rows = b.op("Unsqueeze", (queries, b.constant([1])), "query_rows")  # (n_tokens, 1)
    first_rows = b.op("Unsqueeze", (first, b.constant([1, 2, 3])), "first_rows")  # (batch, 1, 1, 1)
    causal = b.op("LessOrEqual", (keys, query_rows), "causal")
    real_key = b.op("GreaterOrEqual", (keys, first_rows), "real_key")
    padding_query = b.op("Less", (query_rows, first_rows), "padding_query")
    fitting = b.op("Or", (real_key, padding_query), "fitting")
    allowed = b.op("And", (causal, fitting), "allowed")
    bias = b.op("Where", (allowed, b.constant(0.0), b.constant(float("-inf"))), "self_bias")
    first_columns = b.op("Unsqueeze", (first, b.constant([1])), "first_columns")  # (batch, 1)
    offsets = b.op("Sub", (queries, first_columns), "text_offsets")
    return bias, b.op("Max", (offsets, b.constant(0)), "text_positions")


def _self_attention(b: GraphBuilder, x: str, i: int, context: _Context) -> str:
    """`x + out(attention(norm(x)))` over the cache and this step's tokens."""
    name = f"decoder.layers.{i}.self_attn"
    heads = context.dims.n_decoder_heads
    normed = layer_norm(b, x, f"{name}.normed", context.checkpoint, f"{name}_layer_norm")
    weights = fused_qkv(context.checkpoint, name, context.dims.head_size)
    qkv = linear(b, normed, f"{name}.qkv", weights, context.arithmetic)
    parts = b.ops("Split", (qkv,), [f"{name}.{part}" for part in "qkv"], axis=-1)
    q, k, v = (split_heads(b, part, f"{part}_heads", heads) for part in parts)
    key = b.op("Concat", (f"past_key_{i}", k), f"present_key_{i}", axis=2)
    value = b.op("Concat", (f"past_value_{i}", v), f"present_value_{i}", axis=2)
    turned = b.op("Transpose", (key,), f"{name}.key_turned", perm=[0, 1, 3, 2])
    mixed, _ = _attend(b, name, q, (turned, value, context.self_bias))
    return _project_out(b, x, mixed, name, context)


def _cross_attention(b: GraphBuilder, x: str, i: int, context: _Context) -> tuple[str, str]:
    """`x + out(attention(norm(x)))` over the audio; also the attention weights."""
    name = f"decoder.layers.{i}.encoder_attn"
    normed = layer_norm(b, x, f"{name}.normed", context.checkpoint, f"{name}_layer_norm")
    weights = query(context.checkpoint, name, context.dims.head_size)
    projected = linear(b, normed, f"{name}.q", weights, context.arithmetic)
    q = split_heads(b, projected, f"{name}.q_heads", context.dims.n_decoder_heads)
    mixed, attention = _attend(
        b, name, q, (f"cross_key_{i}", f"cross_value_{i}", context.cross_bias)
    )
    return _project_out(b, x, mixed, name, context), attention


def _attend(
    b: GraphBuilder, name: str, q: str, key_value_bias: tuple[str, str, str]
) -> tuple[str, str]:
    """Softmax attention of all heads; the key comes turned, `(batch, heads, head_size, n)`."""
    key, value, bias = key_value_bias
    scores = b.op("MatMul", (q, key), f"{name}.scores")
    masked = b.op("Add", (scores, bias), f"{name}.masked")
    weights = b.op("Softmax", (masked,), f"{name}.weights", axis=-1)
    return b.op("MatMul", (weights, value), f"{name}.mixed"), weights


def _project_out(b: GraphBuilder, x: str, mixed: str, name: str, context: _Context) -> str:
    merged = merge_heads(b, mixed, f"{name}.merged")
    out_proj = checkpoint_linear(context.checkpoint, f"{name}.out_proj")
    out = linear(b, merged, f"{name}.out", out_proj, context.arithmetic)
    return b.op("Add", (x, out), f"{name}.residual")


def _alignment(b: GraphBuilder, weights: Sequence[str], aligned: str, pairs: HeadPairs) -> None:
    """Join the alignment heads' weights for some tokens, without the padding column.

    The runtime computes every output, bound or not. Choosing the tokens first makes these few
    nodes work on nothing when `aligned` is empty.
    """
    parts = []
    for layer in sorted({layer for layer, _ in pairs}):
        heads = b.constant([head for pair_layer, head in pairs if pair_layer == layer])
        chosen = b.op("Gather", (weights[layer], aligned), f"alignment.{layer}.tokens", axis=2)
        parts.append(b.op("Gather", (chosen, heads), f"alignment.{layer}", axis=1))
    joined = b.op("Concat", parts, "alignment.joined", axis=1)
    limits = (b.constant([0]), b.constant([-1]), b.constant([3]))
    b.op("Slice", (joined, *limits), "alignment")
    b.output("alignment", FLOAT, ("batch", len(pairs), "A", "n_positions"))
