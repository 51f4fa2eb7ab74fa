"""The encoder graph: log-mel of any even length up to the full context -> audio features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import AnyArray, Weight
from whisper_hailo.convert.graphs.attention import attend, attend_in_half
from whisper_hailo.convert.graphs.builder import FLOAT, GELU_OPSET, OPSET, Graph, GraphBuilder
from whisper_hailo.convert.graphs.layers import gelu, layer_norm, mlp
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    Linear,
    Rounded,
    checkpoint_linear,
    linear,
    query,
    rounded,
    seen_by_several,
)
from whisper_hailo.core.spec import GROUPED_WIDTH

_TO_THE_END = 2**62


def convolution(b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, stride: int) -> str:
    """`(batch, n_in, n)` -> `(batch, n_out, n / stride)`, three wide."""
    weight = b.weight(f"{name}.weight", checkpoint.weight(f"{name}.weight"))
    bias = b.weight(f"{name}.bias", checkpoint.weight(f"{name}.bias"))
    return b.op("Conv", (x, weight, bias), name, kernel_shape=[3], pads=[1, 1], strides=[stride])


def convolution_as_product(
    b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, stride: int
) -> str:
    """`(batch, n, n_in)` -> `(batch, n / stride, n_out)`, as one product in 8 bits.

    Every output sees three inputs side by side. The product then needs no operator of its own for
    integers, and leaves the features where the layers want them. What is laid side by side are
    codes: a quarter of the bytes.
    """
    n_in = checkpoint.weight(f"{name}.weight").shape[1]
    each = rounded(b, x)
    if stride == 1:
        codes = _neighbours(b, each, name)
    else:
        codes = _pairs_and_one_before(b, each, name, n_in)
    weights = Linear(
        _side_by_side(checkpoint.weight(f"{name}.weight")), checkpoint.weight(f"{name}.bias")
    )
    return linear(b, replace(each, codes=codes), name, weights)


def _neighbours(b: GraphBuilder, x: Rounded, name: str) -> str:
    """`(batch, n, n_in)` -> `(batch, n, 3 n_in)`: each with those before and after it."""
    framed = b.op("Pad", (x.codes, b.constant([0, 1, 0, 0, 1, 0]), x.zero), f"{name}.framed")
    ends = (-2, -1, _TO_THE_END)
    shifted = [
        b.op(
            "Slice",
            (framed, b.constant([start]), b.constant([end]), b.constant([1])),
            f"{name}.seen_{start}",
        )
        for start, end in enumerate(ends)
    ]
    return b.op("Concat", shifted, f"{name}.seen", axis=-1)


def _pairs_and_one_before(b: GraphBuilder, x: Rounded, name: str, n_in: int) -> str:
    """`(batch, n, n_in)` -> `(batch, n / 2, 3 n_in)`: every second with those around it.

    Two inputs in a row lie in memory as one of twice the width. The one before a pair is the second
    half of the pair before.
    """
    pairs = b.op("Reshape", (x.codes, b.constant([0, -1, 2 * n_in])), f"{name}.pairs")
    second = b.op(
        "Slice",
        (pairs, b.constant([0, n_in]), b.constant([-1, 2 * n_in]), b.constant([1, 2])),
        f"{name}.second",
    )
    before = b.op("Pad", (second, b.constant([0, 1, 0, 0, 0, 0]), x.zero), f"{name}.before")
    return b.op("Concat", (before, pairs), f"{name}.seen", axis=-1)


def _side_by_side(weight: Weight) -> Weight:
    """`(n_out, n_in, 3)` -> `(n_out, 3 n_in)`, the three in their order."""
    n_out, n_in, width = weight.shape

    def load() -> AnyArray:
        return np.ascontiguousarray(weight.load().transpose(0, 2, 1)).reshape(n_out, width * n_in)

    return Weight((n_out, width * n_in), weight.dtype, load)


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
