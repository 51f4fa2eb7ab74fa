"""The decoder as the Hailo compiler takes it: no cache, every position at every run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import AnyArray, ready_weight, transposed_weight
from whisper_hailo.convert.graphs.builder import FLOAT, INT64, Graph, GraphBuilder
from whisper_hailo.convert.hailo.pieces import (
    N_CHUNKS,
    AttentionShape,
    FixedSizes,
    attend,
    feed_forward,
    fused_qkv,
    project,
    written_out_norm,
)

OPSET = 13
"""The opset of the graph that the compiler is known to accept."""

TOKENS, FEATURES, LOGITS = "decoder_input_ids", "encoder_hidden_states", "logits"
START_NODE = "/Reshape"
END_NODES = ("/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3")
"""Node names of the graph that the compiler is known to accept."""

EMBEDDING = "decoder.embed_tokens.weight"
POSITIONS = "decoder.embed_positions.weight"


@dataclass(frozen=True, slots=True)
class _Context:
    """What every layer shares.

    Attributes:
        mask: name of the additive causal mask.
    """

    checkpoint: Checkpoint
    own: AttentionShape
    cross: AttentionShape
    mask: str


def hailo_decoder_graph(checkpoint: Checkpoint, sizes: FixedSizes) -> Graph:
    """Author the Hailo-form decoder, opset 13.

    Inputs `decoder_input_ids (1, length)` int64 and `encoder_hidden_states (1, n_positions,
    d_model)` float32, output `logits (1, length, n_vocab)` float32. The compiler starts at
    `encoder_hidden_states` and `/Reshape` and ends at the four products of `END_NODES`; token
    lookup and concatenation are the host's.
    """
    dims = checkpoint.config.dims
    b = GraphBuilder("whisper_hailo_decoder", OPSET)
    tokens = b.input(TOKENS, INT64, (1, sizes.length))
    features = b.input(FEATURES, FLOAT, (1, sizes.n_positions, dims.d_model))
    x = _embed(b, checkpoint, tokens, sizes.length)
    mask = b.weight("decoder.causal_mask", ready_weight(_causal_mask(sizes.length)))
    own = AttentionShape(sizes.length, sizes.length, dims.n_decoder_heads, dims.head_size)
    context = _Context(checkpoint, own, replace(own, n_keys=sizes.n_positions), mask)
    for i in range(dims.n_decoder_layers):
        name = f"decoder.layers.{i}"
        x = _self_attention(b, x, f"{name}.self_attn", context)
        x = _cross_attention(b, x, features, f"{name}.encoder_attn", context)
        stem = f"{name}.final_layer_norm"
        normed = written_out_norm(b, x, f"{name}.mlp_normed", checkpoint, stem)
        x = b.op("Add", (x, feed_forward(b, normed, name, checkpoint)), f"{name}.out")
    hidden = written_out_norm(b, x, "decoder.hidden", checkpoint, "decoder.layer_norm")
    _logits(b, checkpoint, hidden, sizes.length)
    return b.build()


def _embed(b: GraphBuilder, checkpoint: Checkpoint, tokens: str, length: int) -> str:
    """Token and position embedding, `(1, length, d_model)`, by way of the chip's layout.

    The detour over `(1, d_model, length, 1)` changes no value. That tensor, NHWC `(1, length, 1,
    d_model)`, is what the chip is handed: the compiler starts at the Reshape behind it.
    """
    d_model = checkpoint.config.dims.d_model
    rows = b.op("Gather", (b.weight(EMBEDDING, checkpoint.weight(EMBEDDING)), tokens), "tokens")
    places = b.weight(POSITIONS, checkpoint.rows(POSITIONS, 0, length))
    embedded = b.op("Add", (rows, places), "embedded")
    image = b.op("Unsqueeze", (embedded, b.constant([1])), "embedded.image")
    channels_first = b.op("Transpose", (image,), "embedded.nchw", perm=[0, 3, 2, 1])
    shape = b.constant([1, d_model, length])
    flat = b.op("Reshape", (channels_first, shape), "embedded.flat", node_name=START_NODE)
    return b.op("Transpose", (flat,), "embedded.turned", perm=[0, 2, 1])


def _causal_mask(length: int) -> AnyArray:
    """Additive `(1, 1, length, length)` float32: 0 up to the diagonal, -inf beyond it."""
    beyond = np.triu(np.ones((length, length), bool), 1)
    return np.where(beyond, np.float32(-np.inf), np.float32(0))[None, None]


def _self_attention(b: GraphBuilder, x: str, name: str, context: _Context) -> str:
    """`x + out(attention(norm(x)))`, each position seeing itself and what is before it."""
    normed = written_out_norm(b, x, f"{name}.normed", context.checkpoint, f"{name}_layer_norm")
    parts = fused_qkv(b, normed, name, context.checkpoint)
    mixed = attend(b, name, parts, context.own, context.mask)
    out = project(b, mixed, f"{name}.out_proj", context.checkpoint)
    return b.op("Add", (x, out), f"{name}.residual")


def _cross_attention(b: GraphBuilder, x: str, features: str, name: str, context: _Context) -> str:
    """`x + out(attention(norm(x), features))`; keys have no bias."""
    checkpoint = context.checkpoint
    normed = written_out_norm(b, x, f"{name}.normed", checkpoint, f"{name}_layer_norm")
    parts = (
        project(b, normed, f"{name}.q_proj", checkpoint),
        project(b, features, f"{name}.k_proj", checkpoint, bias=False),
        project(b, features, f"{name}.v_proj", checkpoint),
    )
    mixed = attend(b, name, parts, context.cross)
    return b.op("Add", (x, project(b, mixed, f"{name}.out_proj", checkpoint)), f"{name}.residual")


def vocabulary_chunks(n_vocab: int) -> tuple[tuple[int, int], ...]:
    """Return first and last row (exclusive) of each quarter; the last takes the rest."""
    size = n_vocab // N_CHUNKS
    edges = [*(i * size for i in range(N_CHUNKS)), n_vocab]
    return tuple(pairwise(edges))


def _logits(b: GraphBuilder, checkpoint: Checkpoint, hidden: str, length: int) -> None:
    """`hidden (1, length, d_model)` to the vocabulary, in products that the chip can hold."""
    n_vocab = checkpoint.config.dims.n_vocab
    chunks = []
    for node_name, (start, stop) in zip(END_NODES, vocabulary_chunks(n_vocab), strict=True):
        rows = checkpoint.rows(checkpoint.projection_name, start, stop)
        matrix = b.weight(f"{LOGITS}.{start}.weight", transposed_weight(rows))
        chunks.append(b.op("MatMul", (hidden, matrix), f"{LOGITS}.{start}", node_name=node_name))
    b.op("Concat", chunks, LOGITS, node_name="/Concat", axis=2)
    b.output(LOGITS, FLOAT, (1, length, n_vocab))
