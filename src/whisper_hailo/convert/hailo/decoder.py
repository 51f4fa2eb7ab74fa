"""The decoder as the Hailo compiler takes it: no cache, every position at every run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import ready_weight, transposed_weight
from whisper_hailo.convert.graphs.builder import FLOAT, INT64, Graph, WhisperBuilder
from whisper_hailo.convert.hailo.pieces import (
    N_CHUNKS,
    FixedSizes,
    cross_attention,
    feed_forward,
    norm,
    self_attention,
)

OPSET = 13
"""The opset of the graph that the compiler is known to accept."""

TOKENS, FEATURES, LOGITS = "decoder_input_ids", "encoder_hidden_states", "logits"
START_NODE = "/Reshape"
END_NODES = ("/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3")
"""Node names of the graph that the compiler is known to accept."""

EMBEDDING = "decoder.embed_tokens.weight"
POSITIONS = "decoder.embed_positions.weight"


def hailo_decoder_graph(checkpoint: Checkpoint, sizes: FixedSizes) -> Graph:
    """Author the Hailo-form decoder, opset 13.

    Inputs `decoder_input_ids (1, length)` int64 and `encoder_hidden_states (1, n_positions,
    d_model)` float32, output `logits (1, length, n_vocab)` float32. The compiler starts at
    `encoder_hidden_states` and `/Reshape` and ends at the four products of `END_NODES`, each of
    which the chip can hold; token lookup and concatenation are the host's.
    """
    b = WhisperBuilder("whisper_hailo_decoder", checkpoint, OPSET)
    length, dims = sizes.length, b.dims
    tokens = b.input(TOKENS, INT64, (1, length))
    features = b.input(FEATURES, FLOAT, (1, sizes.n_positions, dims.d_model))
    x = _embed(b, tokens, length)
    beyond = np.triu(np.ones((1, 1, length, length), bool), 1)
    causal = np.where(beyond, np.float32(-np.inf), np.float32(0))
    mask = b.weight("decoder.causal_mask", ready_weight(causal))
    for i in range(dims.n_decoder_layers):
        name = f"decoder.layers.{i}"
        x = self_attention(b, x, f"{name}.self_attn", length, dims.n_decoder_heads, mask=mask)
        lengths = (length, sizes.n_positions)
        x = cross_attention(b, x, features, f"{name}.encoder_attn", lengths)
        x = feed_forward(b, x, name)
    hidden = norm(b, x, "decoder.hidden", "decoder.layer_norm")
    chunks = []
    for node_name, (start, stop) in zip(END_NODES, vocabulary_chunks(dims.n_vocab), strict=True):
        rows = checkpoint.rows(checkpoint.projection_name, start, stop)
        matrix = b.weight(f"{LOGITS}.{start}.weight", transposed_weight(rows))
        chunks.append(b.op("MatMul", (hidden, matrix), f"{LOGITS}.{start}", node_name=node_name))
    b.op("Concat", chunks, LOGITS, node_name="/Concat", axis=2)
    b.output(LOGITS, FLOAT, (1, length, dims.n_vocab))
    return b.build()


def _embed(b: WhisperBuilder, tokens: str, length: int) -> str:
    """Write token and position embedding, `(1, length, d_model)`, by way of the chip's layout.

    The detour over `(1, d_model, length, 1)` changes no value. That tensor, NHWC `(1, length, 1,
    d_model)`, is what the chip is handed: the compiler starts at the Reshape behind it.
    """
    rows = b.op("Gather", (b.stored(EMBEDDING), tokens), "tokens")
    places = b.weight(POSITIONS, b.checkpoint.rows(POSITIONS, 0, length))
    embedded = b.op("Add", (rows, places), "embedded")
    image = b.op("Unsqueeze", (embedded, b.constant([1])), "embedded.image")
    channels_first = b.op("Transpose", (image,), "embedded.nchw", perm=[0, 3, 2, 1])
    shape = b.constant([1, b.dims.d_model, length])
    flat = b.op("Reshape", (channels_first, shape), "embedded.flat", node_name=START_NODE)
    return b.op("Transpose", (flat,), "embedded.turned", perm=[0, 2, 1])


def vocabulary_chunks(n_vocab: int) -> tuple[tuple[int, int], ...]:
    """Return first and last row (exclusive) of each quarter; the last takes the rest."""
    size = n_vocab // N_CHUNKS
    return tuple(pairwise([*(i * size for i in range(N_CHUNKS)), n_vocab]))
