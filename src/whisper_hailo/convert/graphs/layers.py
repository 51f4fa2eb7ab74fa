"""The pieces every Whisper graph is made of, each a few nodes."""

from __future__ import annotations

from whisper_hailo.convert.graphs.builder import FLOAT, HALF, GraphBuilder, WhisperBuilder
from whisper_hailo.convert.graphs.products import Arithmetic, Linear, linear
from whisper_hailo.core.types import FloatArray

LAYER_NORM_EPSILON = 1e-5


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
    return b.op(
        "LayerNormalization",
        inputs,
        name,
        node_name=node_name,
        axis=-1,
        epsilon=LAYER_NORM_EPSILON,
    )


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
