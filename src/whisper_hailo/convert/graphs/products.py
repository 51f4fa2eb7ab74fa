"""Matrix products with their weights, in any of the arithmetics that a graph may be written in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import (
    AnyArray,
    Weight,
    scaled_weight,
    stacked_weight,
    transposed_weight,
    zero_weight,
)
from whisper_hailo.convert.graphs.builder import MICROSOFT, GraphBuilder
from whisper_hailo.convert.graphs.quantize import block_size, quantized, quantized_outputs

ACCURACY_INT8 = 4
"""MatMulNBits' `accuracy_level` that lets the CPU multiply in int8."""


class Arithmetic(Enum):
    """How a graph's matrix products compute.

    Attributes:
        FLOAT: in float32.
        BLOCKS_8: weights in 8-bit blocks, which also rounds what they meet block by block: quick
            where few rows share one read of the weights, as in a decoder's step.
        BLOCKS_4: the same in 4-bit blocks.
        TENSOR_8: 8-bit weights with a scale for each output, times a tensor that is rounded to 8
            bits as a whole: quick where there are many rows, as in an encoder.
    """

    FLOAT = "float"
    BLOCKS_8 = "blocks of 8 bits"
    BLOCKS_4 = "blocks of 4 bits"
    TENSOR_8 = "8 bits"

    @property
    def block_bits(self) -> int | None:
        """Bits of the blocks, `None` where there are none."""
        return {Arithmetic.BLOCKS_8: 8, Arithmetic.BLOCKS_4: 4}.get(self)


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix product with its bias, as the checkpoint holds it.

    Attributes:
        matrix: `(n_out, n_in)` float32.
        bias: `(n_out,)` float32, or `None`.
    """

    matrix: Weight
    bias: Weight | None = None


def checkpoint_linear(checkpoint: Checkpoint, name: str, *, bias: bool = True) -> Linear:
    """The product called `name` in a checkpoint."""
    return Linear(
        checkpoint.weight(f"{name}.weight"), checkpoint.weight(f"{name}.bias") if bias else None
    )


def query(checkpoint: Checkpoint, attention: str, head_size: int) -> Linear:
    """Query projection with the attention's 1 / sqrt(head size) folded in.

    Whisper's heads are 64 wide, so the factor is 1/8 and folding it changes no bit.
    """
    factor = head_size**-0.5
    matrix, bias = (checkpoint.weight(f"{attention}.q_proj.{part}") for part in ("weight", "bias"))
    return Linear(scaled_weight(matrix, factor), scaled_weight(bias, factor))


def fused_qkv(checkpoint: Checkpoint, attention: str, head_size: int) -> Linear:
    """Query, key and value projections as one product `(3 d_model, d_model)`."""
    return joined(
        query(checkpoint, attention, head_size),
        checkpoint_linear(checkpoint, f"{attention}.k_proj", bias=False),
        checkpoint_linear(checkpoint, f"{attention}.v_proj"),
    )


def joined(*parts: Linear) -> Linear:
    """Products of the same input as one, their outputs side by side."""
    biases = [part.bias or zero_weight(part.matrix.shape[0]) for part in parts]
    return Linear(stacked_weight([part.matrix for part in parts]), stacked_weight(biases))


def with_wider_outputs(weights: Linear, n_heads: int, width: int) -> Linear:
    """Every head's outputs followed by zeros until it is `width` wide."""
    n_out, n_in = weights.matrix.shape
    size = n_out // n_heads
    if size == width:
        return weights

    def widened(array: AnyArray) -> AnyArray:
        apart = array.reshape(n_heads, size, -1)
        return np.pad(apart, ((0, 0), (0, width - size), (0, 0)))

    shape = (n_heads * width, n_in)
    matrix = Weight(
        shape, weights.matrix.dtype, lambda: widened(weights.matrix.load()).reshape(shape)
    )
    bias = weights.bias
    if bias is None:
        return Linear(matrix)
    return Linear(matrix, Weight(shape[:1], bias.dtype, lambda: widened(bias.load()).ravel()))


def with_wider_inputs(weights: Linear, n_heads: int, width: int) -> Linear:
    """Takes heads that are followed by anything until they are `width` wide."""
    n_out, n_in = weights.matrix.shape
    size = n_in // n_heads
    if size == width:
        return weights
    shape = (n_out, n_heads * width)

    def widened() -> AnyArray:
        apart = weights.matrix.load().reshape(n_out * n_heads, size)
        return np.pad(apart, ((0, 0), (0, width - size))).reshape(shape)

    return Linear(Weight(shape, weights.matrix.dtype, widened), weights.bias)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A tensor in 8 bits: `(codes - zero) * scale`.

    Attributes:
        codes: uint8.
        scale: one float32.
        zero: the code of 0, uint8.
    """

    codes: str
    scale: str
    zero: str


Seen: TypeAlias = str | Rounded
"""What products see: a float32 value, or one that is rounded already."""


def rounded(b: GraphBuilder, x: str) -> Rounded:
    """Round a tensor as a whole, as `DynamicQuantizeMatMul` does with its input."""
    names = (f"{x}.codes", f"{x}.scale", f"{x}.zero")
    return Rounded(*b.ops("DynamicQuantizeLinear", (x,), names))


def seen_by_several(b: GraphBuilder, x: str, arithmetic: Arithmetic) -> Seen:
    """A value that several products with this arithmetic see, rounded once where they round.

    One product and a Split would write and read all outputs once more.
    """
    return rounded(b, x) if arithmetic is Arithmetic.TENSOR_8 else x


def linear(
    b: GraphBuilder,
    x: Seen,
    name: str,
    weights: Linear,
    arithmetic: Arithmetic = Arithmetic.FLOAT,
) -> str:
    """`x @ matrix.T + bias`, `(..., n_in)` -> `(..., n_out)`.

    Args:
        b: the graph.
        x: value with at least two axes.
        name: name of the result, and stem of the weights' names.
        weights: what to multiply with.
        arithmetic: how; what is rounded already is multiplied in 8 bits.
    """
    if isinstance(x, Rounded):
        return _rounded_linear(b, x, name, weights)
    if arithmetic is Arithmetic.TENSOR_8:
        return _tensor_linear(b, x, name, weights)
    if arithmetic.block_bits is not None:
        return _blocked_linear(b, x, name, weights, arithmetic.block_bits)
    matrix = b.weight(f"{name}.weight", transposed_weight(weights.matrix))
    if weights.bias is None:
        return b.op("MatMul", (x, matrix), name)
    product = b.op("MatMul", (x, matrix), f"{name}.product")
    return b.op("Add", (product, b.weight(f"{name}.bias", weights.bias)), name)


def _rounded_linear(b: GraphBuilder, x: Rounded, name: str, weights: Linear) -> str:
    """One node that multiplies in integers, scales and adds the bias."""
    codes, scales, bias = _tensor_weights(b, name, weights)
    inputs = [x.codes, codes, x.scale, scales, x.zero, "", *bias]
    return b.op("MatMulIntegerToFloat", inputs, name, domain=MICROSOFT)


def _tensor_linear(b: GraphBuilder, x: str, name: str, weights: Linear) -> str:
    """One node that rounds, multiplies in integers, scales and adds the bias."""
    codes, scales, bias = _tensor_weights(b, name, weights)
    inputs = [x, codes, scales, "", *bias]
    return b.op("DynamicQuantizeMatMul", inputs, name, domain=MICROSOFT)


def _tensor_weights(b: GraphBuilder, name: str, weights: Linear) -> tuple[str, str, list[str]]:
    """Names of codes, scales and, where there is one, the bias."""
    codes, scales = quantized_outputs(weights.matrix)
    bias = [] if weights.bias is None else [b.weight(f"{name}.bias", weights.bias)]
    return b.weight(f"{name}.codes", codes), b.weight(f"{name}.scales", scales), bias


def _blocked_linear(b: GraphBuilder, x: str, name: str, weights: Linear, bits: int) -> str:
    codes, scales = quantized(weights.matrix, bits)
    n_out, n_in = weights.matrix.shape
    inputs = [x, b.weight(f"{name}.codes", codes), b.weight(f"{name}.scales", scales)]
    if weights.bias is not None:
        inputs += ["", "", b.weight(f"{name}.bias", weights.bias)]
    block = block_size(n_in, bits)
    return matmul_n_bits(b, inputs, name, bits=bits, n_in=n_in, n_out=n_out, block=block)


def matmul_n_bits(
    b: GraphBuilder, inputs: list[str], name: str, *, bits: int, n_in: int, n_out: int, block: int
) -> str:
    """A product with weight-only blocks; see ONNX Runtime's contrib operator MatMulNBits."""
    return b.op(
        "MatMulNBits",
        inputs,
        name,
        domain=MICROSOFT,
        K=n_in,
        N=n_out,
        bits=bits,
        block_size=block,
        accuracy_level=ACCURACY_INT8,
    )
