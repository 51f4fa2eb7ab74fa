"""What both Hailo-form graphs are made of: every shape a number, every node one the chip knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import stacked_weight, transposed_weight
from whisper_hailo.convert.graphs.builder import GraphBuilder
from whisper_hailo.convert.graphs.layers import LAYER_NORM_EPSILON, gelu
from whisper_hailo.convert.graphs.products import checkpoint_linear, linear
from whisper_hailo.convert.options import HailoOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND

N_CHUNKS: Final = 4
"""Products that the vocabulary is cut into: one of 51865 columns is too large for the chip."""

TINY_D_MODEL: Final = 384
SMALL_WINDOW_S, SMALL_LENGTH = 10, 32
"""What the vendor compiled for tiny; narrower models get it too."""

BASE_D_MODEL: Final = 512
BASE_10H_WINDOW_S, BASE_10H_LENGTH = 10, 64
"""What the vendor compiled for base on a Hailo-10H."""

LARGE_WINDOW_S, LARGE_LENGTH = 5, 24
"""What the vendor compiled for base, whose compilation fails at 10 s on Hailo-8. A larger
size is not published; it gets the shortest window known, as the likeliest to fit."""


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
    known_window_s, known_length = _known(dims.d_model, options.arch)
    return FixedSizes(
        window_s=_window(options.window_s, known_window_s, dims),
        length=_length(options.decoder_length, known_length, dims),
    )


def _known(d_model: int, arch: str | None) -> tuple[int, int]:
    """Window and length that are known, or likeliest, to compile."""
    if d_model <= TINY_D_MODEL:
        return SMALL_WINDOW_S, SMALL_LENGTH
    if arch == "hailo10h" and d_model <= BASE_D_MODEL:
        return BASE_10H_WINDOW_S, BASE_10H_LENGTH
    return LARGE_WINDOW_S, LARGE_LENGTH


def _window(wanted: float | None, known: int, dims: Dimensions) -> int:
    longest = int(dims.max_window_s)
    if wanted is None:
        return min(known, longest)
    if not 1 <= wanted <= longest or wanted != int(wanted):
        raise OptionError(
            f"--window is {wanted:g}, expected a whole number of seconds from 1 to {longest} "
            f"({dims.n_audio_ctx} encoder positions); the known windows are 10 for tiny, 5 for base"
        )
    return int(wanted)


def _length(wanted: int | None, known: int, dims: Dimensions) -> int:
    if wanted is None:
        return min(known, dims.n_text_ctx)
    if not 1 <= wanted <= dims.n_text_ctx:
        raise OptionError(
            f"--decoder-length is {wanted}, expected 1 to {dims.n_text_ctx}, this model's text "
            "context; the known lengths are 32 for tiny, 24 for base, 64 on Hailo-10H"
        )
    return wanted


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of one attention."""

    n_queries: int
    n_keys: int
    n_heads: int
    head_size: int

    @property
    def scale(self) -> float:
        """What queries are multiplied with."""
        return float(self.head_size**-0.5)


def _add_bias(b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint) -> str:
    """`x + bias` of the product called `name`; the result is called `name`, too."""
    stored = f"{name}.bias"
    return b.op("Add", (x, b.weight(stored, checkpoint.weight(stored))), name)


def fused_qkv(
    b: GraphBuilder, x: str, attention: str, checkpoint: Checkpoint
) -> tuple[str, str, str]:
    """Write query, key and value as one product and a Split; their biases follow it.

    The compiler's accepted encoder has this very form: the fused product stays at 8 bits in the
    vendor's scripts when all others go to 16, so it has to be one layer.

    Returns:
        query, key, value, each `(1, n, d_model)`.
    """
    parts = [checkpoint.weight(f"{attention}.{part}_proj.weight") for part in "qkv"]
    d_model = checkpoint.config.dims.d_model
    matrix = b.weight(f"{attention}.qkv.weight", transposed_weight(stacked_weight(parts)))
    product = b.op("MatMul", (x, matrix), f"{attention}.qkv")
    names = [f"{attention}.{part}_product" for part in "qkv"]
    q, k, v = b.ops("Split", (product, b.constant([d_model] * 3)), names, axis=2)
    query = _add_bias(b, q, f"{attention}.q_proj", checkpoint)
    value = _add_bias(b, v, f"{attention}.v_proj", checkpoint)
    return query, k, value


def attend(
    b: GraphBuilder,
    name: str,
    query_key_value: tuple[str, str, str],
    shape: AttentionShape,
    mask: str | None = None,
) -> str:
    """Write eager softmax attention.

    The query `(1, n_queries, d_model)` comes without its scale, key and value are `(1, n_keys,
    d_model)`, `mask` is additive `(1, 1, n_queries, n_keys)`; `name` is the stem of the values'
    names.

    Returns:
        `(1, n_queries, d_model)`.
    """
    query, key, value = query_key_value
    scaled = b.op("Mul", (query, b.constant(shape.scale)), f"{name}.q_scaled")
    q = _split(b, scaled, f"{name}.q_heads", (shape.n_queries, shape), turned=False)
    k = _split(b, key, f"{name}.k_heads", (shape.n_keys, shape), turned=True)
    v = _split(b, value, f"{name}.v_heads", (shape.n_keys, shape), turned=False)
    scores = b.op("MatMul", (q, k), f"{name}.scores")
    if mask is not None:
        scores = b.op("Add", (scores, mask), f"{name}.masked")
    weights = b.op("Softmax", (scores,), f"{name}.weights", axis=3)
    mixed = b.op("MatMul", (weights, v), f"{name}.mixed")
    turned = b.op("Transpose", (mixed,), f"{name}.turned", perm=[0, 2, 1, 3])
    merged = b.constant([1, shape.n_queries, shape.n_heads * shape.head_size])
    return b.op("Reshape", (turned, merged), f"{name}.merged")


def _split(
    b: GraphBuilder, x: str, name: str, sizes: tuple[int, AttentionShape], *, turned: bool
) -> str:
    """`(1, n, d_model)` -> `(1, heads, n, head_size)`; `turned` swaps the last two."""
    n, shape = sizes
    target = b.constant([1, n, shape.n_heads, shape.head_size])
    apart = b.op("Reshape", (x, target), f"{name}.apart")
    return b.op("Transpose", (apart,), name, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])


def project(
    b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, *, bias: bool = True
) -> str:
    """Return the product called `name` of `x (1, n, n_in)`."""
    return linear(b, x, name, checkpoint_linear(checkpoint, name, bias=bias))


def feed_forward(b: GraphBuilder, normed: str, name: str, checkpoint: Checkpoint) -> str:
    """`fc2(gelu(fc1(normed)))` of the layer called `name`."""
    inner = project(b, normed, f"{name}.fc1", checkpoint)
    return project(b, gelu(b, inner, f"{name}.gelu"), f"{name}.fc2", checkpoint)


def written_out_norm(b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, stem: str) -> str:
    """Write LayerNorm over the last of three axes node by node: opset 13 has no other form."""
    mean = b.op("ReduceMean", (x,), f"{name}.mean", axes=[2], keepdims=1)
    centred = b.op("Sub", (x, mean), f"{name}.centred")
    squares = b.op("Pow", (centred, b.constant(2.0)), f"{name}.squares")
    variance = b.op("ReduceMean", (squares,), f"{name}.variance", axes=[2], keepdims=1)
    safe = b.op("Add", (variance, b.constant(LAYER_NORM_EPSILON)), f"{name}.safe")
    deviation = b.op("Sqrt", (safe,), f"{name}.deviation")
    unit = b.op("Div", (centred, deviation), f"{name}.unit")
    weight = b.weight(f"{stem}.weight", checkpoint.weight(f"{stem}.weight"))
    scaled = b.op("Mul", (unit, weight), f"{name}.scaled")
    return b.op("Add", (scaled, b.weight(f"{stem}.bias", checkpoint.weight(f"{stem}.bias"))), name)
