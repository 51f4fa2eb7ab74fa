"""The parts that every Whisper graph is made of: products, norm, GELU, MLP, and fused attention.

Products come with their weights, in any of the arithmetics that a graph may be written in. All
queries have 1 / sqrt(head size) folded into their projection, so attention's scale is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    HALF,
    INT32,
    MICROSOFT,
    GraphBuilder,
    WhisperBuilder,
)
from whisper_hailo.convert.graphs.quantize import (
    block_size,
    quantized,
    quantized_outputs,
)
from whisper_hailo.core.spec import SIGNLESS_ZERO
from whisper_hailo.core.types import FloatArray


class Arithmetic(Enum):
    """How a graph's matrix products compute.

    Attributes:
        FLOAT: in float32.
        BLOCKS_8: weights in 8-bit blocks; the runtime rounds the inputs block by block, too: quick
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
        """Change the rows of matrix and bias alike, into `n_out` or as many as before."""
        if n_out is None:
            n_out = self.matrix.shape[0]
        matrix = self.matrix.map(change, (n_out, self.matrix.shape[1]))
        bias = None if self.bias is None else self.bias.map(change, (n_out,))
        return Linear(matrix, bias)

    def map_inputs(
        self, change: Callable[[AnyArray], AnyArray], n_in: int | None = None
    ) -> Linear:
        """Change the columns of the matrix, into `n_in` or as many as before."""
        if n_in is None:
            n_in = self.matrix.shape[1]
        matrix = self.matrix.map(change, (self.matrix.shape[0], n_in))
        return Linear(matrix, self.bias)


def stored_linear(b: WhisperBuilder, name: str, *, bias: bool = True) -> Linear:
    """Return the product called `name` in the graph's checkpoint."""
    matrix = b.checkpoint.weight(f"{name}.weight")
    if not bias:
        return Linear(matrix)
    return Linear(matrix, b.checkpoint.weight(f"{name}.bias"))


def query(b: WhisperBuilder, attention: str, head_size: int) -> Linear:
    """Return the query projection with the attention's 1 / sqrt(head size) folded in.

    Whisper's heads are 64 wide, so the factor is 1/8 and folding it changes no bit.
    """
    factor = np.float32(head_size**-0.5)
    return stored_linear(b, f"{attention}.q_proj").map_outputs(
        lambda part: part * factor
    )


def joined(*parts: Linear) -> Linear:
    """Return products of the same input as one, whose outputs are theirs in order."""
    matrices = []
    biases = []
    for part in parts:
        matrices.append(part.matrix)
        if part.bias is None:
            n_out = part.matrix.shape[0]
            biases.append(ready_weight(np.zeros(n_out, np.float32)))
        else:
            biases.append(part.bias)
    return Linear(stacked_weight(matrices), stacked_weight(biases))


def with_wider_outputs(weights: Linear, n_heads: int, width: int) -> Linear:
    """Return every head's outputs followed by zeros until it is `width` wide."""
    size = weights.matrix.shape[0] // n_heads
    if size == width:
        return weights

    def widen(part: AnyArray) -> AnyArray:
        heads = part.reshape(n_heads, size, -1)
        wide = np.pad(heads, ((0, 0), (0, width - size), (0, 0)))
        return wide.reshape(n_heads * width, *part.shape[1:])

    return weights.map_outputs(widen, n_heads * width)


def with_wider_inputs(weights: Linear, n_heads: int, width: int) -> Linear:
    """Return a product whose inputs are heads of `width`, of which it ignores the last values."""
    size = weights.matrix.shape[1] // n_heads
    if size == width:
        return weights

    def widen(matrix: AnyArray) -> AnyArray:
        heads = matrix.reshape(-1, size)
        wide = np.pad(heads, ((0, 0), (0, width - size)))
        return wide.reshape(-1, n_heads * width)

    return weights.map_inputs(widen, n_heads * width)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A tensor in 8 bits: `(codes - zero) * scale`, codes and zero uint8, one float32 scale."""

    codes: str
    scale: str
    zero: str


Operand: TypeAlias = str | Rounded
"""The input of a product: a float32 value, or one that is rounded already."""


def quantize_once(b: GraphBuilder, x: str, arithmetic: Arithmetic) -> Operand:
    """Return the input of several products with this arithmetic, rounded once where they round.

    It is rounded as a whole, as `DynamicQuantizeMatMul` does with its input. One product and a
    Split would write and read all outputs once more.
    """
    if arithmetic is not Arithmetic.TENSOR_8:
        return x
    names = (f"{x}.codes", f"{x}.scale", f"{x}.zero")
    codes, scale, zero = b.ops("DynamicQuantizeLinear", (x,), names)
    return Rounded(codes, scale, zero)


def linear(
    b: GraphBuilder,
    x: Operand,
    name: str,
    weights: Linear,
    arithmetic: Arithmetic = Arithmetic.FLOAT,
) -> str:
    """Write `x @ matrix.T + bias`, `(..., n_in)` -> `(..., n_out)`.

    `x` has at least two axes; what is rounded already is multiplied in 8 bits. `name` is the
    result's, and the stem of the weights' names.
    """
    if isinstance(x, Rounded) or arithmetic is Arithmetic.TENSOR_8:
        return _linear_in_integers(b, x, name, weights)
    bits = arithmetic.block_bits
    if bits is not None:
        return _linear_in_blocks(b, x, name, weights, bits)
    matrix = b.weight(f"{name}.weight", transposed_weight(weights.matrix))
    if weights.bias is None:
        return b.op("MatMul", (x, matrix), name)
    product = b.op("MatMul", (x, matrix), f"{name}.product")
    return b.op("Add", (product, *_write_bias(b, name, weights)), name)


def _linear_in_integers(
    b: GraphBuilder,
    x: Operand,
    name: str,
    weights: Linear,
) -> str:
    """Write one node that rounds (if need be), multiplies in integers, scales and adds the bias."""
    code_weight, scale_weight = quantized_outputs(weights.matrix)
    bias = _write_bias(b, name, weights)
    codes = b.weight(f"{name}.codes", code_weight)
    scales = b.weight(f"{name}.scales", scale_weight)
    if isinstance(x, Rounded):
        inputs = [x.codes, codes, x.scale, scales, x.zero, "", *bias]
        return b.op("MatMulIntegerToFloat", inputs, name, domain=MICROSOFT)
    inputs = [x, codes, scales, "", *bias]
    return b.op("DynamicQuantizeMatMul", inputs, name, domain=MICROSOFT)


def _linear_in_blocks(
    b: GraphBuilder,
    x: str,
    name: str,
    weights: Linear,
    bits: int,
) -> str:
    code_weight, scale_weight = quantized(weights.matrix, bits)
    codes = b.weight(f"{name}.codes", code_weight)
    scales = b.weight(f"{name}.scales", scale_weight)
    inputs = [x, codes, scales]
    if weights.bias is not None:
        inputs += ["", "", *_write_bias(b, name, weights)]
    return matmul_n_bits(b, inputs, name, weights.matrix.shape, bits)


def _write_bias(b: GraphBuilder, name: str, weights: Linear) -> list[str]:
    """Add the bias, and return its name as the last input of a node, if there is one."""
    if weights.bias is None:
        return []
    return [b.weight(f"{name}.bias", weights.bias)]


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
        accuracy_level=4,  # lets the CPU multiply in int8
    )


NORM_EPSILON = 1e-5

SELF_BIAS = "self_bias.cut"
"""Value that is added to the scores of the cache, `(batch, 1, n, n_columns)`."""

WINDOW_QUERIES = "window_queries.shape"
"""Value that is the shape of the queries of each window: `windows, -1, heads, head_size`."""

ROW_VALUES = "row_values.shape"
"""Value that is the shape of one value for each token: `rows, n_tokens, d_model`."""


def layer_norm(
    b: WhisperBuilder,
    x: str,
    name: str,
    stem: str,
    *,
    factors: FloatArray | None = None,
    node_name: str = "",
) -> str:
    """Write LayerNormalization of `x (batch, n, d_model)` with the weights called `stem`.

    The result is divided by `factors (d_model,)` float32.
    """
    scale = b.checkpoint.weight(f"{stem}.weight")
    bias = b.checkpoint.weight(f"{stem}.bias")
    if factors is not None:
        scale = scale.map(lambda values: values / factors)
        bias = bias.map(lambda values: values / factors)
    inputs = (x, b.weight(f"{stem}.weight", scale), b.weight(f"{stem}.bias", bias))
    return b.op(
        "LayerNormalization",
        inputs,
        name,
        name=node_name or name,
        axis=-1,
        epsilon=NORM_EPSILON,
    )


def gelu(
    b: GraphBuilder,
    x: str,
    name: str,
    *,
    half: bool = False,
) -> str:
    """Write exact GELU as Div, Erf, Add, Mul, Mul, which every runtime knows (and most fuse).

    `half` computes in float16, for which opset 20 has one operator.
    """
    if half:
        cast = b.op("Cast", (x,), f"{x}.half", to=HALF)
        in_half = b.op("Gelu", (cast,), f"{name}.in_half")
        return b.op("Cast", (in_half,), name, to=FLOAT)
    scope = b.scope(name)
    scaled = scope.op("Div", (x, b.constant(2**0.5)), "div")
    erf = scope.op("Erf", (scaled,), "erf")
    shifted = scope.op("Add", (erf, b.constant(1.0)), "add")
    product = scope.op("Mul", (x, shifted), "mul")
    return b.op("Mul", (product, b.constant(0.5)), name)


def mlp(
    b: GraphBuilder,
    normed: str,
    name: str,
    products: tuple[Linear, Linear],
    arithmetic: Arithmetic = Arithmetic.FLOAT,
    *,
    half: bool = False,
) -> str:
    """Write `fc2(gelu(fc1(normed)))`: the last addition of the layer called `name`.

    `products` are `fc1` and `fc2`; `half` is the GELU's.
    """
    fc1, fc2 = products
    inner = linear(b, normed, f"{name}.fc1", fc1, arithmetic)
    active = gelu(b, inner, f"{name}.gelu", half=half)
    return linear(b, active, f"{name}.fc2", fc2, arithmetic)


def attend(
    b: GraphBuilder,
    name: str,
    qkv: tuple[str, str, str],
    n_heads: int,
    *,
    bias: str = "",
) -> str:
    """Write softmax attention of all heads, which never holds the whole matrix of scores.

    The query is `(batch, n, d_model)`, key and value are `(batch, n_keys, d_model)`, or split into
    heads, `(batch, heads, n_keys, head_size)`. `bias (batch, 1, n, n_keys)` is added to the scores.
    """
    inputs = [*qkv]
    if bias:
        inputs += ["", "", bias]
    return b.op(
        "MultiHeadAttention",
        inputs,
        name,
        domain=MICROSOFT,
        num_heads=n_heads,
        scale=1.0,
    )


def attend_to_cache(
    b: GraphBuilder,
    name: str,
    qkv: str,
    layer: int,
    n_heads: int,
) -> str:
    """Write causal attention over a cache to which this step's keys and values are added.

    Where the runtime is given the same memory for past and present, it appends in place. With one
    key and value for each query, "grouped" attention is the ordinary one. The graph has the inputs
    `past_key_{layer}`, `past_value_{layer}`, `last_column`, `n_columns` and the value `SELF_BIAS`;
    `qkv (batch, n, 3 d_model)` holds query, key and value, in this order.
    """
    cache = (f"past_key_{layer}", f"past_value_{layer}")
    inputs = (qkv, "", "", *cache, "last_column", "n_columns", "", "", "", SELF_BIAS)
    outputs = (name, f"present_key_{layer}", f"present_value_{layer}")
    return _attend_grouped(b, inputs, outputs, n_heads)


def attend_int8(
    b: GraphBuilder,
    name: str,
    query: str,
    layer: int,
) -> str:
    """Write attention to keys and values of the audio in 8 bits, all products in integers.

    Hypotheses of one window are further queries to the same keys, which are read once. Queries and
    weights are rounded to 8 bits for each query and head, so none depends on its neighbours.
    Weights are 36 dB from those that are not rounded (real `base`). No code has a sign: sums of
    signed ones are cut off by processors without VNNI.

    The graph has the inputs `cross_key_{layer} (windows, heads, blocks, head_size, AUDIO_BLOCK)`,
    `cross_value_{layer} (windows, heads, n_keys, head_size)`, its scales `(windows, 1, heads,
    head_size)`, `cross_bias (windows, 1, 1, n_keys)` and the value `WINDOW_QUERIES`. `query` has
    the scales of the keys; it and the result are `(windows, m, heads, head_size)`.
    """
    scope = b.scope(name)
    zero = b.constant(np.array(0, np.uint8))
    middle = b.constant(np.array(SIGNLESS_ZERO, np.uint8))
    unit_step = b.constant(1.0)
    block_axis = b.constant([2])
    # Queries in 8 bits, and their products with the keys.
    split = scope.op("Transpose", (query,), "query", perm=[0, 2, 1, 3])
    magnitudes = scope.op("Abs", (split,), "sizes")
    largest = scope.op("ReduceMax", (magnitudes,), "largest", axes=[-1])
    step = scope.op("Mul", (largest, b.constant(1.0 / 127)), "step")
    steps = scope.op("Div", (split, step), "steps")
    codes = scope.op("QuantizeLinear", (steps, unit_step, middle), "codes")
    block_codes = scope.op("Unsqueeze", (codes, block_axis), "asked")
    keys = (block_codes, f"cross_key_{layer}", middle, middle)
    blocks = scope.op("MatMulInteger", keys, "score_blocks")
    # (windows, heads, blocks, m, AUDIO_BLOCK) -> (windows, heads, m, n_keys)
    transposed = scope.op(
        "Transpose", (blocks,), "sums.side_by_side", perm=[0, 1, 3, 2, 4]
    )
    n_keys = scope.op("Shape", ("cross_bias",), "sums.n_keys", start=3, end=4)
    shape = scope.op("Concat", (b.constant([0, 0, -1]), n_keys), "sums.shape", axis=0)
    sums = scope.op("Reshape", (transposed, shape), "sums")
    float_sums = scope.op("Cast", (sums,), "float_sums", to=FLOAT)
    scores = scope.op("Mul", (float_sums, step), "scores")
    biased = scope.op("Add", (scores, "cross_bias"), "biased")
    # Weights in 8 bits, relative to the largest of each query, and their products with the values.
    weights = scope.op("Softmax", (biased,), "weights", axis=-1)
    peak = scope.op("ReduceMax", (weights,), "peak", axes=[-1])
    shares = scope.op("Div", (weights, peak), "shares")
    unit = b.constant(1.0 / 255)
    weight_codes = scope.op("QuantizeLinear", (shares, unit, zero), "weight_codes")
    values = (weight_codes, f"cross_value_{layer}", zero, middle)
    value_sums = scope.op("MatMulInteger", values, "value_sums")
    float_values = scope.op("Cast", (value_sums,), "float_values", to=FLOAT)
    worth = scope.op("Mul", (peak, unit), "worth")
    attended = scope.op("Mul", (float_values, worth), "mixed")
    merged = scope.op("Transpose", (attended,), "back", perm=[0, 2, 1, 3])
    return b.op("Mul", (merged, f"cross_value_scale_{layer}"), name)


def attend_in_half(
    b: GraphBuilder,
    name: str,
    qkv: tuple[str, str, str],
    n_heads: int,
) -> str:
    """Write `attend` for as many keys as queries, computed in float16 from and to float32."""
    scope = b.scope(qkv[0])
    batch = scope.op("Shape", (qkv[0],), "size_0", start=0, end=1)
    n = scope.op("Shape", (qkv[0],), "size_1", start=1, end=2)
    n_keys = scope.op("Cast", (n,), "n", to=INT32)
    last = scope.op("Sub", (n_keys, b.constant(np.array([1], np.int32))), "last")
    last_of_each = scope.op("Expand", (last, batch), "last_of_each")
    halves = [b.op("Cast", (part,), f"{part}.half", to=HALF) for part in qkv]
    inputs = (*halves, "", "", last_of_each, n_keys)
    attended = _attend_grouped(b, inputs, (f"{name}.in_half",), n_heads, causal=0)
    return b.op("Cast", (attended,), name, to=FLOAT)


def _attend_grouped(
    b: GraphBuilder,
    inputs: Sequence[str],
    outputs: Sequence[str],
    n_heads: int,
    **attrs: int,
) -> str:
    attended, *_ = b.ops(
        "GroupQueryAttention",
        inputs,
        outputs,
        domain=MICROSOFT,
        num_heads=n_heads,
        kv_num_heads=n_heads,
        scale=1.0,
        **attrs,
    )
    return attended
