"""The encoder's two convolutions, as such or as matrix products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import AnyArray, Weight
from whisper_hailo.convert.graphs.builder import GraphBuilder
from whisper_hailo.convert.graphs.products import Linear, Rounded, linear, rounded

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
