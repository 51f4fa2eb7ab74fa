"""Matrix products with their weights, in any of the arithmetics that a graph may be written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from whisper_hailo.checkpoint.weights import (
    AnyArray,
    Weight,
    ready_weight,
    stacked_weight,
    transposed_weight,
)
from whisper_hailo.convert.graphs.onnx_graph import MICROSOFT, GraphBuilder, WhisperBuilder
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
    """A matrix product `(n_out, n_in)` float32 with its bias `(n_out,)`, if it has one."""

    matrix: Weight
    bias: Weight | None = None

    def map_outputs(
        self, change: Callable[[AnyArray], AnyArray], n_out: int | None = None
    ) -> Linear:
        """Change the rows of the matrix and the bias alike, into `n_out` or as many as before."""
        shape = (n_out or self.matrix.shape[0], self.matrix.shape[1])
        return Linear(
            self.matrix.map(change, shape), self.bias and self.bias.map(change, shape[:1])
        )

    def map_inputs(self, change: Callable[[AnyArray], AnyArray], n_in: int | None = None) -> Linear:
        """Change the columns of the matrix, into `n_in` or as many as before."""
        shape = (self.matrix.shape[0], n_in or self.matrix.shape[1])
        return Linear(self.matrix.map(change, shape), self.bias)


def stored_linear(b: WhisperBuilder, name: str, *, bias: bool = True) -> Linear:
    """Return the product called `name` in the graph's checkpoint."""
    weight = b.checkpoint.weight
    return Linear(weight(f"{name}.weight"), weight(f"{name}.bias") if bias else None)


def query(b: WhisperBuilder, attention: str, head_size: int) -> Linear:
    """Return the query projection with the attention's 1 / sqrt(head size) folded in.

    Whisper's heads are 64 wide, so the factor is 1/8 and folding it changes no bit.
    """
    factor = np.float32(head_size**-0.5)
    return stored_linear(b, f"{attention}.q_proj").map_outputs(lambda part: part * factor)


def joined(*parts: Linear) -> Linear:
    """Return products of the same input as one, their outputs side by side."""
    biases = [
        part.bias or ready_weight(np.zeros(part.matrix.shape[0], np.float32)) for part in parts
    ]
    return Linear(stacked_weight([part.matrix for part in parts]), stacked_weight(biases))


def with_wider_outputs(weights: Linear, n_heads: int, width: int) -> Linear:
    """Return every head's outputs followed by zeros until it is `width` wide."""
    size = weights.matrix.shape[0] // n_heads

    def widen(part: AnyArray) -> AnyArray:
        apart = part.reshape(n_heads, size, -1)
        wide = np.pad(apart, ((0, 0), (0, width - size), (0, 0)))
        return wide.reshape(n_heads * width, *part.shape[1:])

    return weights if size == width else weights.map_outputs(widen, n_heads * width)


def with_wider_inputs(weights: Linear, n_heads: int, width: int) -> Linear:
    """Return a product of heads that are followed by anything until they are `width` wide."""
    size = weights.matrix.shape[1] // n_heads

    def widen(matrix: AnyArray) -> AnyArray:
        wide = np.pad(matrix.reshape(-1, size), ((0, 0), (0, width - size)))
        return wide.reshape(-1, n_heads * width)

    return weights if size == width else weights.map_inputs(widen, n_heads * width)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A tensor in 8 bits: `(codes - zero) * scale`, codes and zero uint8, one float32 scale."""

    codes: str
    scale: str
    zero: str


Seen: TypeAlias = str | Rounded
"""What products see: a float32 value, or one that is rounded already."""


def seen_by_several(b: GraphBuilder, x: str, arithmetic: Arithmetic) -> Seen:
    """Return a value for several products with this arithmetic, rounded once where they round.

    It is rounded as a whole, as `DynamicQuantizeMatMul` does with its input. One product and a
    Split would write and read all outputs once more.
    """
    if arithmetic is not Arithmetic.TENSOR_8:
        return x
    return Rounded(*b.ops("DynamicQuantizeLinear", (x,), (f"{x}.codes", f"{x}.scale", f"{x}.zero")))


def linear(
    b: GraphBuilder,
    x: Seen,
    name: str,
    weights: Linear,
    arithmetic: Arithmetic = Arithmetic.FLOAT,
) -> str:
    """Write `x @ matrix.T + bias`, `(..., n_in)` -> `(..., n_out)`.

    `x` has at least two axes; what is rounded already is multiplied in 8 bits. `name` is the
    result's, and the stem of the weights' names.
    """

    def bias() -> list[str]:
        return [] if weights.bias is None else [b.weight(f"{name}.bias", weights.bias)]

    if isinstance(x, Rounded) or arithmetic is Arithmetic.TENSOR_8:
        # One node that (rounds,) multiplies in integers, scales and adds the bias.
        outputs, last = quantized_outputs(weights.matrix), bias()
        codes, scales = (
            b.weight(f"{name}.codes", outputs[0]),
            b.weight(f"{name}.scales", outputs[1]),
        )
        if isinstance(x, Rounded):
            inputs = [x.codes, codes, x.scale, scales, x.zero, "", *last]
            return b.op("MatMulIntegerToFloat", inputs, name, domain=MICROSOFT)
        inputs = [x, codes, scales, "", *last]
        return b.op("DynamicQuantizeMatMul", inputs, name, domain=MICROSOFT)
    if (bits := arithmetic.block_bits) is not None:
        blocks = quantized(weights.matrix, bits)
        inputs = [x, b.weight(f"{name}.codes", blocks[0]), b.weight(f"{name}.scales", blocks[1])]
        if weights.bias is not None:
            inputs += ["", "", *bias()]
        return matmul_n_bits(b, inputs, name, weights.matrix.shape, bits)
    matrix = b.weight(f"{name}.weight", transposed_weight(weights.matrix))
    if weights.bias is None:
        return b.op("MatMul", (x, matrix), name)
    product = b.op("MatMul", (x, matrix), f"{name}.product")
    return b.op("Add", (product, *bias()), name)


def matmul_n_bits(
    b: GraphBuilder,
    inputs: list[str],
    name: str,
    shape: tuple[int, ...],
    bits: int,
    *,
    largest: int | None = None,
) -> str:
    """Write a product with weight-only blocks: ONNX Runtime's contrib operator MatMulNBits.

    `shape` is the matrix's, `(n_out, n_in)`; for `largest` see `block_size`.
    """
    n_out, n_in = shape
    return b.op(
        "MatMulNBits",
        inputs,
        name,
        domain=MICROSOFT,
        K=n_in,
        N=n_out,
        bits=bits,
        block_size=block_size(n_in, bits, largest),
        accuracy_level=ACCURACY_INT8,
    )
