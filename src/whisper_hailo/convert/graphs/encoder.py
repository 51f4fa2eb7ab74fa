"""The encoder graph: log-mel of any even length up to the full context -> audio features."""

from __future__ import annotations

from whisper_hailo.convert.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import FLOAT, Graph, GraphBuilder
from whisper_hailo.convert.graphs.layers import (
    checkpoint_linear,
    fused_qkv,
    gelu,
    layer_norm,
    linear,
    merge_heads,
    mlp,
    split_heads,
)


def encoder_graph(checkpoint: Checkpoint, bits: int | None = None) -> Graph:
    """Author the encoder.

    Input `mel (batch, n_mels, n_frames)` float32, output `audio_features
    (batch, n_frames / 2, d_model)` float32; batch and frames are dynamic.

    Args:
        checkpoint: where the arrays come from.
        bits: 8 or 4 for matrix products in weight-only blocks; all else stays float32.
    """
    dims = checkpoint.config.dims
    b = GraphBuilder("whisper_encoder")
    mel = b.input("mel", FLOAT, ("batch", dims.n_mels, "n_frames"))
    x = _positions(b, checkpoint, _convolutions(b, checkpoint, mel))
    for i in range(dims.n_encoder_layers):
        x = _self_attention(b, x, f"encoder.layers.{i}", checkpoint, bits)
        x = mlp(b, x, f"encoder.layers.{i}", checkpoint, bits)
    layer_norm(b, x, "audio_features", checkpoint, "encoder.layer_norm")
    b.output("audio_features", FLOAT, ("batch", "n_positions", dims.d_model))
    return b.build()


def _convolutions(b: GraphBuilder, checkpoint: Checkpoint, mel: str) -> str:
    """`(batch, n_mels, n_frames)` -> `(batch, n_positions, d_model)`."""
    x = mel
    for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
        weight = b.weight(f"{name}.weight", checkpoint.weight(f"{name}.weight"))
        bias = b.weight(f"{name}.bias", checkpoint.weight(f"{name}.bias"))
        x = b.op("Conv", (x, weight, bias), name, kernel_shape=[3], pads=[1, 1], strides=[stride])
        x = gelu(b, x, f"{name}.gelu")
    return b.op("Transpose", (x,), "encoder.conv.turned", perm=[0, 2, 1])


def _positions(b: GraphBuilder, checkpoint: Checkpoint, x: str) -> str:
    """Add the first n_positions rows of the positional table."""
    stem = "encoder.embed_positions.weight"
    table = b.weight(stem, checkpoint.weight(stem))
    n_positions = b.op("Shape", (x,), "encoder.n_positions", start=1, end=2)
    limits = (b.constant([0]), n_positions, b.constant([0]))
    rows = b.op("Slice", (table, *limits), "encoder.positions")
    return b.op("Add", (x, rows), "encoder.embedded")


def _self_attention(
    b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, bits: int | None
) -> str:
    """`x + out(attention(norm(x)))` over all positions."""
    attention = f"{name}.self_attn"
    dims = checkpoint.config.dims
    heads = dims.n_encoder_heads
    normed = layer_norm(b, x, f"{attention}.normed", checkpoint, f"{attention}_layer_norm")
    weights = fused_qkv(checkpoint, attention, dims.d_model // heads)
    qkv = linear(b, normed, f"{attention}.qkv", weights, bits)
    q, k, v = b.ops("Split", (qkv,), [f"{attention}.{part}" for part in "qkv"], axis=-1)
    scores = b.op(
        "MatMul",
        (
            split_heads(b, q, f"{attention}.q_heads", heads),
            split_heads(b, k, f"{attention}.k_heads", heads, turned=True),
        ),
        f"{attention}.scores",
    )
    weights_ = b.op("Softmax", (scores,), f"{attention}.weights", axis=-1)
    values = split_heads(b, v, f"{attention}.v_heads", heads)
    mixed = b.op("MatMul", (weights_, values), f"{attention}.mixed")
    merged = merge_heads(b, mixed, f"{attention}.merged")
    out_proj = checkpoint_linear(checkpoint, f"{attention}.out_proj")
    out = linear(b, merged, f"{attention}.out", out_proj, bits)
    return b.op("Add", (x, out), f"{attention}.residual")
