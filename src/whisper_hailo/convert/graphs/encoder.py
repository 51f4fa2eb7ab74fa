"""The encoder graph: log-mel of any even length up to the full context -> audio features."""

from __future__ import annotations

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.attention import attend, attend_in_half
from whisper_hailo.convert.graphs.builder import FLOAT, GELU_OPSET, OPSET, Graph, GraphBuilder
from whisper_hailo.convert.graphs.convolution import convolution, convolution_as_product
from whisper_hailo.convert.graphs.layers import gelu, layer_norm, mlp
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    checkpoint_linear,
    linear,
    query,
    seen_by_several,
)
from whisper_hailo.core.dimensions import GROUPED_WIDTH

_CONVOLUTIONS = (("encoder.conv1", 1), ("encoder.conv2", 2))
"""Names and strides."""


def encoder_graph(
    checkpoint: Checkpoint, arithmetic: Arithmetic = Arithmetic.FLOAT, *, half: bool = False
) -> Graph:
    """Author the encoder.

    Input `mel (batch, n_mels, n_frames)` float32, output `audio_features
    (batch, n_frames / 2, d_model)` float32; batch and frames are dynamic.

    Args:
        checkpoint: where the arrays come from.
        arithmetic: of the matrix products and, with `TENSOR_8`, of the convolutions; attention,
            norms, additions and softmax stay float.
        half: attention and GELU are float16 rather than float32, unless the arithmetic is float;
            attention only where the runtime takes heads of that width.
    """
    dims = checkpoint.config.dims
    half = half and arithmetic is not Arithmetic.FLOAT
    b = GraphBuilder("whisper_encoder", GELU_OPSET if half else OPSET)
    mel = b.input("mel", FLOAT, ("batch", dims.n_mels, "n_frames"))
    x = _positions(b, checkpoint, _convolutions(b, checkpoint, mel, arithmetic, half=half))
    for i in range(dims.n_encoder_layers):
        x = _self_attention(b, x, f"encoder.layers.{i}", checkpoint, arithmetic, half=half)
        x = mlp(b, x, f"encoder.layers.{i}", checkpoint, arithmetic, half=half)
    layer_norm(b, x, "audio_features", checkpoint, "encoder.layer_norm")
    b.output("audio_features", FLOAT, ("batch", "n_positions", dims.d_model))
    return b.build()


def _convolutions(
    b: GraphBuilder, checkpoint: Checkpoint, mel: str, arithmetic: Arithmetic, *, half: bool
) -> str:
    """`(batch, n_mels, n_frames)` -> `(batch, n_positions, d_model)`."""
    if arithmetic is Arithmetic.TENSOR_8:
        x = b.op("Transpose", (mel,), "mel.turned", perm=[0, 2, 1])
        for name, stride in _CONVOLUTIONS:
            product = convolution_as_product(b, x, name, checkpoint, stride)
            x = gelu(b, product, f"{name}.gelu", half=half)
        return x
    x = mel
    for name, stride in _CONVOLUTIONS:
        x = gelu(b, convolution(b, x, name, checkpoint, stride), f"{name}.gelu", half=half)
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
    b: GraphBuilder,
    x: str,
    name: str,
    checkpoint: Checkpoint,
    arithmetic: Arithmetic,
    *,
    half: bool,
) -> str:
    """`x + out(attention(norm(x)))` over all positions."""
    attention = f"{name}.self_attn"
    dims = checkpoint.config.dims
    heads = dims.n_encoder_heads
    normed = layer_norm(b, x, f"{attention}.normed", checkpoint, f"{attention}_layer_norm")
    parts = {
        f"{attention}.q": query(checkpoint, attention, dims.d_model // heads),
        f"{attention}.k": checkpoint_linear(checkpoint, f"{attention}.k_proj", bias=False),
        f"{attention}.v": checkpoint_linear(checkpoint, f"{attention}.v_proj"),
    }
    seen = seen_by_several(b, normed, arithmetic)
    q, k, v = (linear(b, seen, part, weights, arithmetic) for part, weights in parts.items())
    takes_half = half and dims.encoder_head_size % GROUPED_WIDTH == 0
    mixed = (attend_in_half if takes_half else attend)(b, f"{attention}.mixed", (q, k, v), heads)
    out_proj = checkpoint_linear(checkpoint, f"{attention}.out_proj")
    out = linear(b, mixed, f"{attention}.out", out_proj, arithmetic)
    return b.op("Add", (x, out), f"{attention}.residual")
