"""The pieces every Whisper graph is made of, each a few nodes."""

from __future__ import annotations

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import divided
from whisper_hailo.convert.graphs.builder import FLOAT, HALF, GraphBuilder
from whisper_hailo.convert.graphs.products import Arithmetic, Linear, checkpoint_linear, linear
from whisper_hailo.core.types import FloatArray

LAYER_NORM_EPSILON = 1e-5


def layer_norm(
    b: GraphBuilder,
    x: str,
    name: str,
    checkpoint: Checkpoint,
    stem: str,
    *,
    factors: FloatArray | None = None,
) -> str:
    """LayerNormalization over the last axis with the weights called `stem`.

    Args:
        b: the graph.
        x: `(batch, n, d_model)`.
        name: name of the result.
        checkpoint: where the weights are.
        stem: their name.
        factors: `(d_model,)` float32 that the result is divided by.
    """
    weights = [checkpoint.weight(f"{stem}.{part}") for part in ("weight", "bias")]
    if factors is not None:
        weights = [divided(weight, factors) for weight in weights]
    scale, bias = b.weight(f"{stem}.weight", weights[0]), b.weight(f"{stem}.bias", weights[1])
    inputs = (x, scale, bias)
    return b.op("LayerNormalization", inputs, name, axis=-1, epsilon=LAYER_NORM_EPSILON)


def in_half(b: GraphBuilder, x: str) -> str:
    """Cast to float16; the new value is called `x.half`."""
    return b.op("Cast", (x,), f"{x}.half", to=HALF)


def in_float(b: GraphBuilder, x: str, name: str) -> str:
    """A float16 value in float32."""
    return b.op("Cast", (x,), name, to=FLOAT)


def gelu(b: GraphBuilder, x: str, name: str, *, half: bool = False) -> str:
    """Exact GELU as Div, Erf, Add, Mul, Mul, which every runtime knows (and most fuse).

    Args:
        b: the graph; of opset 20 for float16.
        x: float32 of any shape.
        name: of the result.
        half: compute in float16, for which there is one operator.
    """
    if half:
        return in_float(b, b.op("Gelu", (in_half(b, x),), f"{name}.in_half"), name)
    erf = b.op("Erf", (b.op("Div", (x, b.constant(2**0.5)), f"{name}.div"),), f"{name}.erf")
    shifted = b.op("Add", (erf, b.constant(1.0)), f"{name}.add")
    return b.op("Mul", (b.op("Mul", (x, shifted), f"{name}.mul"), b.constant(0.5)), name)


def split_heads(b: GraphBuilder, x: str, name: str, n_heads: int, head_size: int) -> str:
    """`(batch, n, d_model)` -> `(batch, heads, n, head_size)`."""
    shape = b.constant([0, 0, n_heads, head_size])  # not -1: there may be no row at all
    apart = b.op("Reshape", (x, shape), f"{name}.apart")
    return b.op("Transpose", (apart,), name, perm=[0, 2, 1, 3])


def add_and_norm(
    b: GraphBuilder, x: str, change: str, checkpoint: Checkpoint, stem: str
) -> tuple[str, str]:
    """`x + change` and its LayerNormalization with the weights called `stem`.

    The runtime's operator for both takes 2 us for each row beyond the first; these two a tenth.

    Args:
        b: the graph.
        x: residual stream `(batch, n, d_model)`.
        change: what a layer adds to it.
        checkpoint: where the norm's weights are.
        stem: their name.

    Returns:
        the residual stream after the addition, and normed.
    """
    added = b.op("Add", (x, change), f"{stem}.in")
    return added, layer_norm(b, added, f"{stem}.out", checkpoint, stem)


def mlp(b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint) -> str:
    """`x + fc2(gelu(fc1(norm(x))))` of the layer called `name`, in float32."""
    normed = layer_norm(b, x, f"{name}.mlp_normed", checkpoint, f"{name}.final_layer_norm")
    change = mlp_change(b, normed, name, mlp_products(checkpoint, name))
    return b.op("Add", (x, change), f"{name}.out")


def mlp_products(checkpoint: Checkpoint, name: str) -> tuple[Linear, Linear]:
    """Return `fc1` and `fc2` of the layer called `name`."""
    return checkpoint_linear(checkpoint, f"{name}.fc1"), checkpoint_linear(
        checkpoint, f"{name}.fc2"
    )


def mlp_change(
    b: GraphBuilder,
    normed: str,
    name: str,
    products: tuple[Linear, Linear],
    arithmetic: Arithmetic = Arithmetic.FLOAT,
    *,
    half: bool = False,
) -> str:
    """`fc2(gelu(fc1(normed)))`: what the layer called `name` adds last; `half` is the GELU's."""
    fc1, fc2 = products
    inner = linear(b, normed, f"{name}.fc1", fc1, arithmetic)
    return linear(b, gelu(b, inner, f"{name}.gelu", half=half), f"{name}.fc2", fc2, arithmetic)
