"""The pieces every Whisper graph is made of, each a few nodes."""

from __future__ import annotations

from whisper_hailo.convert.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import GraphBuilder
from whisper_hailo.convert.graphs.products import Arithmetic, checkpoint_linear, linear

LAYER_NORM_EPSILON = 1e-5


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


def mlp(
    b: GraphBuilder,
    x: str,
    name: str,
    checkpoint: Checkpoint,
    arithmetic: Arithmetic = Arithmetic.FLOAT,
) -> str:
    """`x + fc2(gelu(fc1(norm(x))))` of the layer called `name`."""
    normed = layer_norm(b, x, f"{name}.mlp_normed", checkpoint, f"{name}.final_layer_norm")
    fc1, fc2 = (checkpoint_linear(checkpoint, f"{name}.{part}") for part in ("fc1", "fc2"))
    inner = linear(b, normed, f"{name}.fc1", fc1, arithmetic)
    active = gelu(b, inner, f"{name}.gelu")
    outer = linear(b, active, f"{name}.fc2", fc2, arithmetic)
    return b.op("Add", (x, outer), f"{name}.out")
