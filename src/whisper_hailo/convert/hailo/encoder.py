"""The encoder as the Hailo compiler takes it: one fixed window, node for node the accepted form."""

from __future__ import annotations

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import reshaped_weight
from whisper_hailo.convert.graphs.builder import FLOAT, Graph, GraphBuilder
from whisper_hailo.convert.graphs.layers import LAYER_NORM_EPSILON, gelu, layer_norm, mlp
from whisper_hailo.convert.hailo.pieces import (
    AttentionShape,
    FixedSizes,
    attend,
    fused_qkv,
    project,
)

INPUT, OUTPUT = "x.1", "525"
END_NODE = "/layer_norm/LayerNormalization"
"""The names of the graph that the compiler is known to accept, so that the vendor's own scripts
run on ours unchanged."""


def hailo_encoder_graph(checkpoint: Checkpoint, sizes: FixedSizes) -> Graph:
    """Author the Hailo-form encoder, opset 17.

    Input `x.1 (1, n_mels, 1, n_frames)`, output `525 (1, n_positions, d_model)`, both float32.
    For L layers it has exactly: Conv 2, LayerNormalization 2L+1, MatMul 6L, Add 3+8L, Mul 4+3L,
    Reshape 1+4L, Transpose 1+4L, Split L, Softmax L, Div 2+L, Erf 2+L.
    """
    dims = checkpoint.config.dims
    b = GraphBuilder("whisper_hailo_encoder")
    mel = b.input(INPUT, FLOAT, (1, dims.n_mels, 1, sizes.n_frames))
    x = _positions(b, checkpoint, _convolutions(b, checkpoint, mel, sizes), sizes)
    n, n_heads = sizes.n_positions, dims.n_encoder_heads
    shape = AttentionShape(n, n, n_heads, dims.d_model // n_heads)
    for i in range(dims.n_encoder_layers):
        name = f"encoder.layers.{i}"
        x = _self_attention(b, x, f"{name}.self_attn", checkpoint, shape)
        x = mlp(b, x, name, checkpoint)
    stem = "encoder.layer_norm"
    weights = [b.weight(f"{stem}.{part}", checkpoint.weight(f"{stem}.{part}")) for part in _NORM]
    b.op(
        "LayerNormalization",
        (x, *weights),
        OUTPUT,
        node_name=END_NODE,
        axis=-1,
        epsilon=LAYER_NORM_EPSILON,
    )
    b.output(OUTPUT, FLOAT, (1, sizes.n_positions, dims.d_model))
    return b.build()


_NORM = ("weight", "bias")


def _convolutions(b: GraphBuilder, checkpoint: Checkpoint, mel: str, sizes: FixedSizes) -> str:
    """`(1, n_mels, 1, n_frames)` -> `(1, n_positions, d_model)`."""
    x = mel
    for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
        stored = checkpoint.weight(f"{name}.weight")
        n_out, n_in, width = stored.shape
        weight = b.weight(f"{name}.weight", reshaped_weight(stored, (n_out, n_in, 1, width)))
        bias = b.weight(f"{name}.bias", checkpoint.weight(f"{name}.bias"))
        x = b.op(
            "Conv",
            (x, weight, bias),
            name,
            kernel_shape=[1, width],
            pads=[0, 1, 0, 1],
            strides=[1, stride],
        )
        x = gelu(b, x, f"{name}.gelu")
    shape = b.constant([1, checkpoint.config.dims.d_model, sizes.n_positions])
    flat = b.op("Reshape", (x, shape), "encoder.conv.flat")
    return b.op("Transpose", (flat,), "encoder.conv.turned", perm=[0, 2, 1])


def _positions(b: GraphBuilder, checkpoint: Checkpoint, x: str, sizes: FixedSizes) -> str:
    """Add the first rows of the positional table."""
    stem = "encoder.embed_positions.weight"
    rows = b.weight(stem, checkpoint.rows(stem, 0, sizes.n_positions))
    return b.op("Add", (x, rows), "encoder.embedded")


def _self_attention(
    b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, shape: AttentionShape
) -> str:
    """`x + out(attention(norm(x)))` over all positions."""
    normed = layer_norm(b, x, f"{name}.normed", checkpoint, f"{name}_layer_norm")
    parts = fused_qkv(b, normed, name, checkpoint)
    mixed = attend(b, name, parts, shape)
    out = project(b, mixed, f"{name}.out_proj", checkpoint)
    return b.op("Add", (x, out), f"{name}.residual")
