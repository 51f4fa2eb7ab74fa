"""The pieces every Whisper graph is made of: products, norm, GELU, MLP, and fused attention.

Products come with their weights, in any of the arithmetics that a graph may be written in. All
queries come with 1 / sqrt(head size) folded into their projection, so attention's scale is one.
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
from whisper_hailo.convert.graphs.quantize import block_size, quantized, quantized_outputs
from whisper_hailo.core.spec import SIGNLESS_ZERO
from whisper_hailo.core.types import FloatArray


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


def quantize_once(b: GraphBuilder, x: str, arithmetic: Arithmetic) -> Seen:
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
        codes = b.weight(f"{name}.codes", outputs[0])
        scales = b.weight(f"{name}.scales", outputs[1])
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
    block = block_size(n_in, bits, largest)
    sizes = {"K": n_in, "N": n_out, "bits": bits, "block_size": block}
    sizes["accuracy_level"] = 4  # lets the CPU multiply in int8
    return b.op("MatMulNBits", inputs, name, domain=MICROSOFT, **sizes)


NORM_EPSILON = 1e-5

SELF_BIAS = "self_bias.cut"
"""What is added to the scores of the cache, `(batch, 1, n, n_columns)`."""

WINDOW_QUERIES = "window_queries.shape"
"""Shape `(4,)` of the queries of each window: `windows, -1, heads, head_size`."""

ROW_VALUES = "row_values.shape"
"""Shape `(3,)` of a value of each token: `rows, n_tokens, d_model`."""


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
    scale, bias = (b.checkpoint.weight(f"{stem}.{part}") for part in ("weight", "bias"))
    if factors is not None:
        scale, bias = (weight.map(lambda part: part / factors) for weight in (scale, bias))
    inputs = (x, b.weight(f"{stem}.weight", scale), b.weight(f"{stem}.bias", bias))
    axis = {"axis": -1, "epsilon": NORM_EPSILON}
    return b.op("LayerNormalization", inputs, name, name=node_name or name, **axis)


def gelu(b: GraphBuilder, x: str, name: str, *, half: bool = False) -> str:
    """Write exact GELU as Div, Erf, Add, Mul, Mul, which every runtime knows (and most fuse).

    `half` computes in float16, for which opset 20 has one operator.
    """
    if half:
        cast = b.op("Cast", (x,), f"{x}.half", to=HALF)
        return b.op("Cast", (b.op("Gelu", (cast,), f"{name}.in_half"),), name, to=FLOAT)
    erf = b.op("Erf", (b.op("Div", (x, b.constant(2**0.5)), f"{name}.div"),), f"{name}.erf")
    shifted = b.op("Add", (erf, b.constant(1.0)), f"{name}.add")
    return b.op("Mul", (b.op("Mul", (x, shifted), f"{name}.mul"), b.constant(0.5)), name)


def mlp(
    b: GraphBuilder,
    normed: str,
    name: str,
    products: tuple[Linear, Linear],
    arithmetic: Arithmetic = Arithmetic.FLOAT,
    *,
    half: bool = False,
) -> str:
    """Write `fc2(gelu(fc1(normed)))`: what the layer called `name` adds last.

    `products` are `fc1` and `fc2`; `half` is the GELU's.
    """
    inner = linear(b, normed, f"{name}.fc1", products[0], arithmetic)
    shaped = gelu(b, inner, f"{name}.gelu", half=half)
    return linear(b, shaped, f"{name}.fc2", products[1], arithmetic)


def attend(
    b: GraphBuilder, name: str, qkv: tuple[str, str, str], n_heads: int, *, bias: str = ""
) -> str:
    """Write softmax attention of all heads, which never holds the whole matrix of scores.

    The query is `(batch, n, d_model)`, key and value are `(batch, n_keys, d_model)`, or apart as
    `(batch, heads, n_keys, head_size)`. `bias (batch, 1, n, n_keys)` is added to the scores.
    """
    inputs = [*qkv] + (["", "", bias] if bias else [])
    return b.op("MultiHeadAttention", inputs, name, domain=MICROSOFT, num_heads=n_heads, scale=1.0)


def attend_to_cache(b: GraphBuilder, name: str, qkv: str, layer: int, n_heads: int) -> str:
    """Write causal attention over a cache to which this step's keys and values are added.

    Where the runtime is given the same memory for past and present, it adds them in place. With
    one key and value for each query, "grouped" attention is the ordinary one. The graph has the
    inputs `past_key_{layer}`, `past_value_{layer}`, `last_column`, `n_columns` and the value
    `SELF_BIAS`; `qkv (batch, n, 3 d_model)` holds query, key and value side by side.
    """
    cache = (f"past_key_{layer}", f"past_value_{layer}")
    inputs = (qkv, "", "", *cache, "last_column", "n_columns", "", "", "", SELF_BIAS)
    outputs = (name, f"present_key_{layer}", f"present_value_{layer}")
    return _attend_grouped(b, inputs, outputs, n_heads)


def attend_int8(b: GraphBuilder, name: str, query: str, layer: int) -> str:
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
    apart = b.op("Transpose", (query,), f"{name}.query", perm=[0, 2, 1, 3])
    zero, middle = (b.constant(np.array(code, np.uint8)) for code in (0, SIGNLESS_ZERO))
    one, block = b.constant(1.0), b.constant([2])
    size = b.op("Abs", (apart,), f"{name}.sizes")
    largest = b.op("ReduceMax", (size,), f"{name}.largest", axes=[-1])
    step = b.op("Mul", (largest, b.constant(1.0 / 127)), f"{name}.step")
    steps = b.op("Div", (apart, step), f"{name}.steps")
    codes = b.op("QuantizeLinear", (steps, one, middle), f"{name}.codes")
    asked = b.op("Unsqueeze", (codes, block), f"{name}.asked")
    keys = (asked, f"cross_key_{layer}", middle, middle)
    blocks = b.op("MatMulInteger", keys, f"{name}.score_blocks")
    # (windows, heads, blocks, m, AUDIO_BLOCK) -> (windows, heads, m, n_keys)
    turned = b.op("Transpose", (blocks,), f"{name}.sums.side_by_side", perm=[0, 1, 3, 2, 4])
    shape = b.op("Shape", ("cross_bias",), f"{name}.sums.n_keys", start=3, end=4)
    shape = b.op("Concat", (b.constant([0, 0, -1]), shape), f"{name}.sums.shape", axis=0)
    sums = b.op("Reshape", (turned, shape), f"{name}.sums")
    floats = b.op("Cast", (sums,), f"{name}.float_sums", to=FLOAT)
    scores = b.op("Mul", (floats, step), f"{name}.scores")
    biased = b.op("Add", (scores, "cross_bias"), f"{name}.biased")
    weights = b.op("Softmax", (biased,), f"{name}.weights", axis=-1)
    peak = b.op("ReduceMax", (weights,), f"{name}.peak", axes=[-1])
    shares = b.op("Div", (weights, peak), f"{name}.shares")
    unit = b.constant(1.0 / 255)
    parts = b.op("QuantizeLinear", (shares, unit, zero), f"{name}.weight_codes")
    values = (parts, f"cross_value_{layer}", zero, middle)
    sums = b.op("MatMulInteger", values, f"{name}.value_sums")
    floats = b.op("Cast", (sums,), f"{name}.float_values", to=FLOAT)
    worth = b.op("Mul", (peak, unit), f"{name}.worth")
    mixed = b.op("Mul", (floats, worth), f"{name}.mixed")
    back = b.op("Transpose", (mixed,), f"{name}.back", perm=[0, 2, 1, 3])
    return b.op("Mul", (back, f"cross_value_scale_{layer}"), name)


def attend_in_half(b: GraphBuilder, name: str, qkv: tuple[str, str, str], n_heads: int) -> str:
    """Write `attend` for as many keys as queries, computed in float16 from and to float32."""
    x = qkv[0]
    batch, n = (b.op("Shape", (x,), f"{x}.size_{at}", start=at, end=at + 1) for at in (0, 1))
    n_keys = b.op("Cast", (n,), f"{x}.n", to=INT32)
    last = b.op("Sub", (n_keys, b.constant(np.array([1], np.int32))), f"{x}.last")
    last_of_each = b.op("Expand", (last, batch), f"{x}.last_of_each")
    halves = [b.op("Cast", (part,), f"{part}.half", to=HALF) for part in qkv]
    inputs = (*halves, "", "", last_of_each, n_keys)
    mixed = _attend_grouped(b, inputs, (f"{name}.in_half",), n_heads, causal=0)
    return b.op("Cast", (mixed,), name, to=FLOAT)


def _attend_grouped(
    b: GraphBuilder, inputs: Sequence[str], outputs: Sequence[str], n_heads: int, **attrs: int
) -> str:
    heads = {"num_heads": n_heads, "kv_num_heads": n_heads}
    given = {**heads, "scale": 1.0, **attrs}
    return b.ops("GroupQueryAttention", inputs, outputs, domain=MICROSOFT, **given)[0]
