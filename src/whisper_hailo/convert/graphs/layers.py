"""The pieces every Whisper graph is made of, each a few nodes."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.convert.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import MICROSOFT, GraphBuilder
from whisper_hailo.convert.graphs.quantize import BLOCK_SIZE, quantized
from whisper_hailo.convert.graphs.weights import Weight, scaled, stacked, transposed, zeros

LAYER_NORM_EPSILON = 1e-5
ACCURACY_INT8 = 4
"""MatMulNBits' `accuracy_level` that lets the CPU multiply in int8."""


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
    plain = checkpoint_linear(checkpoint, f"{attention}.q_proj")
    bias = None if plain.bias is None else scaled(plain.bias, factor)
    return Linear(scaled(plain.matrix, factor), bias)


def fused_qkv(checkpoint: Checkpoint, attention: str, head_size: int) -> Linear:
    """Query, key and value projections as one product `(3 d_model, d_model)`."""
    parts = (
        query(checkpoint, attention, head_size),
        checkpoint_linear(checkpoint, f"{attention}.k_proj", bias=False),
        checkpoint_linear(checkpoint, f"{attention}.v_proj"),
    )
    biases = [part.bias or zeros(part.matrix.shape[0]) for part in parts]
    return Linear(stacked([part.matrix for part in parts]), stacked(biases))


def linear(b: GraphBuilder, x: str, name: str, weights: Linear, bits: int | None = None) -> str:
    """`x @ matrix.T + bias`, `(..., n_in)` -> `(..., n_out)`.

    Args:
        b: the graph.
        x: value with at least two axes.
        name: name of the result, and stem of the weights' names.
        weights: what to multiply with.
        bits: 8 or 4 for weight-only blocks, `None` for float32.
    """
    if bits is not None:
        return _blocked_linear(b, x, name, weights, bits)
    matrix = b.weight(f"{name}.weight", transposed(weights.matrix))
    if weights.bias is None:
        return b.op("MatMul", (x, matrix), name)
    product = b.op("MatMul", (x, matrix), f"{name}.product")
    return b.op("Add", (product, b.weight(f"{name}.bias", weights.bias)), name)


def _blocked_linear(b: GraphBuilder, x: str, name: str, weights: Linear, bits: int) -> str:
    codes, scales = quantized(weights.matrix, bits)
    n_out, n_in = weights.matrix.shape
    inputs = [x, b.weight(f"{name}.codes", codes), b.weight(f"{name}.scales", scales)]
    if weights.bias is not None:
        inputs += ["", "", b.weight(f"{name}.bias", weights.bias)]
    return matmul_n_bits(b, inputs, name, bits=bits, n_in=n_in, n_out=n_out)


def matmul_n_bits(
    b: GraphBuilder, inputs: list[str], name: str, *, bits: int, n_in: int, n_out: int
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
        block_size=BLOCK_SIZE,
        accuracy_level=ACCURACY_INT8,
    )


def layer_norm(b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, stem: str) -> str:
    """LayerNormalization over the last axis with the weights called `stem`."""
    scale = b.weight(f"{stem}.weight", checkpoint.weight(f"{stem}.weight"))
    bias = b.weight(f"{stem}.bias", checkpoint.weight(f"{stem}.bias"))
    inputs = (x, scale, bias)
    return b.op("LayerNormalization", inputs, name, axis=-1, epsilon=LAYER_NORM_EPSILON)


def gelu(b: GraphBuilder, x: str, name: str) -> str:
    """Exact GELU as Div, Erf, Add, Mul, Mul, which every runtime knows (and most fuse)."""
    erf = b.op("Erf", (b.op("Div", (x, b.constant(2**0.5)), f"{name}.div"),), f"{name}.erf")
    shifted = b.op("Add", (erf, b.constant(1.0)), f"{name}.add")
    return b.op("Mul", (b.op("Mul", (x, shifted), f"{name}.mul"), b.constant(0.5)), name)


def split_heads(b: GraphBuilder, x: str, name: str, n_heads: int, *, turned: bool = False) -> str:
    """`(batch, n, d_model)` -> `(batch, heads, n, head_size)`; `turned` swaps the last two."""
    shape = b.constant([0, 0, n_heads, -1])
    apart = b.op("Reshape", (x, shape), f"{name}.apart")
    return b.op("Transpose", (apart,), name, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])


def merge_heads(b: GraphBuilder, x: str, name: str) -> str:
    """`(batch, heads, n, head_size)` -> `(batch, n, d_model)`."""
    turned = b.op("Transpose", (x,), f"{name}.turned", perm=[0, 2, 1, 3])
    return b.op("Reshape", (turned, b.constant([0, 0, -1])), name)


def mlp(b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, bits: int | None) -> str:
    """`x + fc2(gelu(fc1(norm(x))))` of the layer called `name`."""
    normed = layer_norm(b, x, f"{name}.mlp_normed", checkpoint, f"{name}.final_layer_norm")
    inner = linear(b, normed, f"{name}.fc1", checkpoint_linear(checkpoint, f"{name}.fc1"), bits)
    active = gelu(b, inner, f"{name}.gelu")
    outer = linear(b, active, f"{name}.fc2", checkpoint_linear(checkpoint, f"{name}.fc2"), bits)
    return b.op("Add", (x, outer), f"{name}.out")
