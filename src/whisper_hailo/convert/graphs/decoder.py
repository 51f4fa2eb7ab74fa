"""The cached decoder graph: tokens and cached keys and values -> logits and a longer cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whisper_hailo.convert.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.attention import attend, attend_to_cache, attention_weights
from whisper_hailo.convert.graphs.builder import FLOAT, INT32, INT64, Graph, GraphBuilder
from whisper_hailo.convert.graphs.decoder_ends import embed_tokens, project_to_vocabulary
from whisper_hailo.convert.graphs.layers import add_and_norm, layer_norm, mlp_change
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    checkpoint_linear,
    fused_qkv,
    linear,
    query,
    with_wider_inputs,
    with_wider_outputs,
)
from whisper_hailo.core.spec import Dimensions

HeadPairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Decoder:
    """What every layer of the decoder shares."""

    checkpoint: Checkpoint
    dims: Dimensions
    arithmetic: Arithmetic


def decoder_graph(
    checkpoint: Checkpoint, alignment: HeadPairs, arithmetic: Arithmetic = Arithmetic.FLOAT
) -> Graph:
    """Author the decoder; `docs/conversion.md` lists its inputs and outputs.

    Masks and places are made by the host, which knows them without asking: in the graph they were
    a fifth of the nodes of a step.

    Args:
        checkpoint: where the arrays come from.
        alignment: `(layer, head)` pairs whose cross-attention weights are an output.
        arithmetic: `FLOAT` or blocks.
    """
    of = _Decoder(checkpoint, checkpoint.config.dims, arithmetic)
    b = GraphBuilder("whisper_decoder")
    _declare_inputs(b, of.dims)
    bits = arithmetic.block_bits
    x = embed_tokens(b, checkpoint, "tokens", "text_positions", bits)
    normed = layer_norm(b, x, f"{_norms(0)[0]}.out", checkpoint, _norms(0)[0])
    queries = []
    for i in range(of.dims.n_decoder_layers):
        _, before_cross, before_mlp = _norms(i)
        change = _self_attention(b, normed, i, of)
        x, normed = add_and_norm(b, x, change, checkpoint, before_cross)
        change, asked = _cross_attention(b, normed, i, of)
        queries.append(asked)
        x, normed = add_and_norm(b, x, change, checkpoint, before_mlp)
        change = mlp_change(b, normed, f"decoder.layers.{i}", checkpoint, arithmetic)
        is_last = i + 1 == of.dims.n_decoder_layers
        following = "decoder.layer_norm" if is_last else _norms(i + 1)[0]
        x, normed = add_and_norm(b, x, change, checkpoint, following)
    hidden = b.op("Gather", (normed, "positions"), "decoder.hidden", axis=1)
    project_to_vocabulary(b, checkpoint, hidden, bits)
    _alignment(b, queries, alignment, (of.dims.n_decoder_heads, of.dims.head_size))
    return b.build()


def _norms(layer: int) -> tuple[str, str, str]:
    """Names of a layer's norms in their order."""
    stem = f"decoder.layers.{layer}"
    return (
        f"{stem}.self_attn_layer_norm",
        f"{stem}.encoder_attn_layer_norm",
        f"{stem}.final_layer_norm",
    )


def _declare_inputs(b: GraphBuilder, dims: Dimensions) -> None:
    """Inputs, and the longer caches, which come out as they are made."""
    b.input("tokens", INT64, ("batch", "n_tokens"))
    b.input("text_positions", INT64, ("batch", "n_tokens"))
    b.input("positions", INT64, ("K",))
    b.input("aligned", INT64, ("A",))
    b.input("self_bias", FLOAT, ("batch", 1, "n_tokens", "n_columns"))
    b.input("cross_bias", FLOAT, ("batch", 1, "n_tokens", "n_positions + 1"))
    b.input("last_column", INT32, ("batch",))
    b.input("n_columns", INT32, (1,))
    heads, size, width = dims.n_decoder_heads, dims.head_size, dims.cache_head_size
    for i in range(dims.n_decoder_layers):
        for part in ("key", "value"):
            b.input(f"past_{part}_{i}", FLOAT, ("batch", heads, "n_places", width))
            b.output(f"present_{part}_{i}", FLOAT, ("batch", heads, "n_places", width))
            b.input(f"cross_{part}_{i}", FLOAT, ("batch", heads, "n_positions + 1", size))


def _self_attention(b: GraphBuilder, normed: str, i: int, of: _Decoder) -> str:
    """`out(attention(normed))` over the cache and this step's tokens."""
    name = f"decoder.layers.{i}.self_attn"
    heads, width = of.dims.n_decoder_heads, of.dims.cache_head_size
    weights = fused_qkv(of.checkpoint, name, of.dims.head_size)
    wide = with_wider_outputs(weights, 3 * heads, width)
    qkv = linear(b, normed, f"{name}.qkv", wide, of.arithmetic)
    mixed = attend_to_cache(b, f"{name}.mixed", qkv, i, heads)
    out_proj = checkpoint_linear(of.checkpoint, f"{name}.out_proj")
    back = with_wider_inputs(out_proj, heads, width)
    return linear(b, mixed, f"{name}.out", back, of.arithmetic)


def _cross_attention(b: GraphBuilder, normed: str, i: int, of: _Decoder) -> tuple[str, str]:
    """`out(attention(normed))` over the audio; also the queries."""
    name = f"decoder.layers.{i}.encoder_attn"
    weights = query(of.checkpoint, name, of.dims.head_size)
    asked = linear(b, normed, f"{name}.q", weights, of.arithmetic)
    qkv = (asked, f"cross_key_{i}", f"cross_value_{i}")
    mixed = attend(b, f"{name}.mixed", qkv, of.dims.n_decoder_heads, bias="cross_bias")
    out_proj = checkpoint_linear(of.checkpoint, f"{name}.out_proj")
    return linear(b, mixed, f"{name}.out", out_proj, of.arithmetic), asked


def _alignment(
    b: GraphBuilder, queries: Sequence[str], pairs: HeadPairs, shape: tuple[int, int]
) -> None:
    """Output `alignment (batch, len(pairs), A, n_positions)`, the padding column dropped.

    The fused operators keep their weights to themselves: those of the tokens that are looked at are
    computed once more. The runtime computes every output whether it is asked for or not, so these
    nodes work on nothing when `aligned` is empty.
    """
    bias = b.op("Gather", ("cross_bias", "aligned"), "alignment.bias", axis=2)
    parts = []
    for layer in sorted({layer for layer, _ in pairs}):
        heads = b.constant([head for pair_layer, head in pairs if pair_layer == layer])
        name = f"alignment.{layer}"
        chosen = b.op("Gather", (queries[layer], "aligned"), f"{name}.queries", axis=1)
        query_key = (chosen, f"cross_key_{layer}")
        weights = attention_weights(b, f"{name}.weights", query_key, bias, shape)
        parts.append(b.op("Gather", (weights, heads), name, axis=1))
    joined = b.op("Concat", parts, "alignment.joined", axis=1)
    limits = (b.constant([0]), b.constant([-1]), b.constant([3]))
    b.op("Slice", (joined, *limits), "alignment")
    b.output("alignment", FLOAT, ("batch", len(pairs), "A", "n_positions"))
