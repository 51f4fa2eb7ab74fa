"""The sizes of Hailo-form graphs, and what both are made of: every shape a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whisper_hailo.checkpoint.weights import stacked_weight, transposed_weight
from whisper_hailo.convert.graphs.builder import OPSET, WhisperBuilder
from whisper_hailo.convert.graphs.layers import LAYER_NORM_EPSILON, layer_norm, mlp
from whisper_hailo.convert.graphs.products import linear, stored_linear
from whisper_hailo.convert.options import HailoOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND

N_CHUNKS: Final = 4
"""Products that the vocabulary is cut into: one of 51865 columns is too large for the chip."""

_KNOWN: Final = ((384, None, 10, 32), (512, "hailo10h", 10, 64), (1 << 30, None, 5, 24))
"""Widest model, chip (`None` is any), window in seconds and length that the vendor compiled: for
tiny, for base on a Hailo-10H, and for base, whose compilation fails at 10 s on Hailo-8. Narrower
models get them, too. A larger size is not published; it gets the shortest window known, as the
likeliest to fit."""


@dataclass(frozen=True, slots=True)
class FixedSizes:
    """The sizes that every tensor of a Hailo-form graph follows from."""

    window_s: int
    length: int

    @property
    def n_frames(self) -> int:
        """Log-mel frames of the window."""
        return self.window_s * FRAMES_PER_SECOND

    @property
    def n_positions(self) -> int:
        """Encoder positions of the window."""
        return self.n_frames // FRAMES_PER_POSITION


def fixed_sizes(options: HailoOptions, dims: Dimensions) -> FixedSizes:
    """Check what the user chose and fill in the rest."""
    if dims.max_window_s < 1 or dims.n_vocab < N_CHUNKS:
        raise OptionError(
            f"--hailo: a model with {dims.n_audio_ctx} encoder positions and {dims.n_vocab} tokens "
            f"has no Hailo form, expected a window of 1 s or more and {N_CHUNKS} tokens or more"
        )
    known_s, known_length = next(
        (window_s, length)
        for widest, arch, window_s, length in _KNOWN
        if dims.d_model <= widest and arch in (None, options.arch)
    )
    longest = int(dims.max_window_s)
    window_s = min(known_s, longest) if options.window_s is None else options.window_s
    if not 1 <= window_s <= longest or window_s != int(window_s):
        raise OptionError(
            f"--window is {window_s:g}, expected a whole number of seconds from 1 to {longest} "
            f"({dims.n_audio_ctx} encoder positions); the known windows are 10 for tiny, 5 for base"
        )
    length = options.decoder_length
    length = min(known_length, dims.n_text_ctx) if length is None else length
    if not 1 <= length <= dims.n_text_ctx:
        raise OptionError(
            f"--decoder-length is {length}, expected 1 to {dims.n_text_ctx}, this model's text "
            "context; the known lengths are 32 for tiny, 24 for base, 64 on Hailo-10H"
        )
    return FixedSizes(int(window_s), length)


def project(b: WhisperBuilder, x: str, name: str, *, bias: bool = True) -> str:
    """Write the product called `name` of `x (1, n, n_in)`."""
    return linear(b, x, name, stored_linear(b, name, bias=bias))


def self_attention(
    b: WhisperBuilder, x: str, name: str, n: int, n_heads: int, *, mask: str = ""
) -> str:
    """Write `x + out(attention(norm(x)))` over the n positions of `x`.

    Query, key and value are one product and a Split; their biases follow it. The compiler's
    accepted encoder has this very form: the fused product stays at 8 bits in the vendor's scripts
    when all others go to 16, so it has to be one layer.
    """
    normed = norm(b, x, f"{name}.normed", f"{name}_layer_norm")
    parts = [b.checkpoint.weight(f"{name}.{part}_proj.weight") for part in "qkv"]
    matrix = b.weight(f"{name}.qkv.weight", transposed_weight(stacked_weight(parts)))
    product = b.op("MatMul", (normed, matrix), f"{name}.qkv")
    names = [f"{name}.{part}_product" for part in "qkv"]
    q, key, v = b.ops("Split", (product, b.constant([b.dims.d_model] * 3)), names, axis=2)
    query, value = (
        b.op("Add", (part, b.stored(f"{name}.{which}_proj.bias")), f"{name}.{which}_proj")
        for part, which in ((q, "q"), (v, "v"))
    )
    mixed = _attend(b, name, (query, key, value), (n, n), n_heads, mask=mask)
    return b.op("Add", (x, project(b, mixed, f"{name}.out_proj")), f"{name}.residual")


def cross_attention(
    b: WhisperBuilder, x: str, features: str, name: str, lengths: tuple[int, int]
) -> str:
    """Write `x + out(attention(norm(x), features))`; keys have no bias.

    `lengths` are the positions of `x` and of the features.
    """
    normed = norm(b, x, f"{name}.normed", f"{name}_layer_norm")
    parts = (
        project(b, normed, f"{name}.q_proj"),
        project(b, features, f"{name}.k_proj", bias=False),
        project(b, features, f"{name}.v_proj"),
    )
    mixed = _attend(b, name, parts, lengths, b.dims.n_decoder_heads)
    return b.op("Add", (x, project(b, mixed, f"{name}.out_proj")), f"{name}.residual")


def feed_forward(b: WhisperBuilder, x: str, name: str) -> str:
    """Write `x + fc2(gelu(fc1(norm(x))))` of the layer called `name`."""
    normed = norm(b, x, f"{name}.mlp_normed", f"{name}.final_layer_norm")
    products = stored_linear(b, f"{name}.fc1"), stored_linear(b, f"{name}.fc2")
    return b.op("Add", (x, mlp(b, normed, name, products)), f"{name}.out")


def _attend(
    b: WhisperBuilder,
    name: str,
    query_key_value: tuple[str, str, str],
    lengths: tuple[int, int],
    n_heads: int,
    *,
    mask: str = "",
) -> str:
    """Write eager softmax attention, `(1, n_queries, d_model)`.

    The query `(1, n_queries, d_model)` comes without its scale, key and value are `(1, n_keys,
    d_model)`, `mask` is additive `(1, 1, n_queries, n_keys)`; `name` is the stem of the values'
    names.
    """
    (query, key, value), (n_queries, n_keys) = query_key_value, lengths
    size = b.dims.d_model // n_heads
    scaled = b.op("Mul", (query, b.constant(float(size**-0.5))), f"{name}.q_scaled")
    heads = []
    for part, x, n in (("q", scaled, n_queries), ("k", key, n_keys), ("v", value, n_keys)):
        apart = b.op(
            "Reshape", (x, b.constant([1, n, n_heads, size])), f"{name}.{part}_heads.apart"
        )
        perm = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
        heads.append(b.op("Transpose", (apart,), f"{name}.{part}_heads", perm=perm))
    scores = b.op("MatMul", heads[:2], f"{name}.scores")
    if mask:
        scores = b.op("Add", (scores, mask), f"{name}.masked")
    weights = b.op("Softmax", (scores,), f"{name}.weights", axis=3)
    mixed = b.op("MatMul", (weights, heads[2]), f"{name}.mixed")
    turned = b.op("Transpose", (mixed,), f"{name}.turned", perm=[0, 2, 1, 3])
    merged = b.constant([1, n_queries, b.dims.d_model])
    return b.op("Reshape", (turned, merged), f"{name}.merged")


def norm(b: WhisperBuilder, x: str, name: str, stem: str) -> str:
    """Write LayerNorm over the last of three axes, node by node where the opset needs it."""
    if b.opset >= OPSET:
        return layer_norm(b, x, name, stem)
    mean = b.op("ReduceMean", (x,), f"{name}.mean", axes=[2], keepdims=1)
    centred = b.op("Sub", (x, mean), f"{name}.centred")
    squares = b.op("Pow", (centred, b.constant(2.0)), f"{name}.squares")
    variance = b.op("ReduceMean", (squares,), f"{name}.variance", axes=[2], keepdims=1)
    safe = b.op("Add", (variance, b.constant(LAYER_NORM_EPSILON)), f"{name}.safe")
    deviation = b.op("Sqrt", (safe,), f"{name}.deviation")
    unit = b.op("Div", (centred, deviation), f"{name}.unit")
    scaled = b.op("Mul", (unit, b.stored(f"{stem}.weight")), f"{name}.scaled")
    return b.op("Add", (scaled, b.stored(f"{stem}.bias")), name)
