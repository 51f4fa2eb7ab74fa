"""The graphs of a cached decoder.

One runs once per window: audio features -> every layer's cross keys and values. The other runs at
every step: tokens and cached keys and values -> logits and a longer cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.weights import ready_weight
from whisper_hailo.convert.graphs.layers import (
    ROW_VALUES,
    SELF_BIAS,
    WINDOW_QUERIES,
    Arithmetic,
    Operand,
    Rounded,
    attend,
    attend_int8,
    attend_to_cache,
    joined,
    layer_norm,
    linear,
    matmul_n_bits,
    mlp,
    quantize_once,
    query,
    stored_linear,
    with_wider_inputs,
    with_wider_outputs,
)
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    INT32,
    INT64,
    MICROSOFT,
    UINT8,
    Graph,
    WhisperBuilder,
)
from whisper_hailo.convert.graphs.quantize import block_size, quantized, rounding_shift
from whisper_hailo.core.spec import AUDIO_BLOCK, SIGNLESS_ZERO, Dimensions


@dataclass(frozen=True, slots=True)
class Precision:
    """Arithmetic of the products of a decoder.

    Four bits are for what a step spends its time on. They cost a tenth of the words where
    everything has them, most of it for nothing (`docs/measurements/quantisation.md`).

    Attributes:
        vocabulary: the token table where all of it is read, to project to the vocabulary.
        kept: the same table where single rows of it are looked up, and query, key and value of the
            text, which every later step reads again.
        others: all other products of the layers.
    """

    vocabulary: Arithmetic
    kept: Arithmetic
    others: Arithmetic

    @classmethod
    def of(cls, arithmetic: Arithmetic, config: Config) -> Precision:
        """Return what a conversion to some arithmetic takes.

        In 4 bits, rows that are looked up stay at 8, since a step reads one of 50,000. So do the
        layers where the token table is the larger part of what a step reads (tiny, base): that
        costs a step some per cent. In deeper decoders only the queries, keys and values do.
        """
        if arithmetic is not Arithmetic.BLOCKS_4:
            return cls(vocabulary=arithmetic, kept=arithmetic, others=arithmetic)
        dims = config.dims
        width = dims.d_model
        # Self-attention has four matrices, cross-attention two that a step reads, the MLP two.
        layer_size = 6 * width * width + 2 * width * config.decoder_ffn
        table_size = dims.n_vocab * width
        is_shallow = table_size > dims.n_decoder_layers * layer_size
        return cls(
            vocabulary=arithmetic,
            kept=Arithmetic.BLOCKS_8,
            others=Arithmetic.BLOCKS_8 if is_shallow else arithmetic,
        )


_EMBEDDING = "decoder.embed_tokens.weight"
_PROJECTION = "decoder.projection"

VOCABULARY_BLOCK = 128
"""Most values with one scale, in 4 bits as in 8: in 4 a third quicker than half as many."""


def decoder_graph(
    checkpoint: Checkpoint,
    alignment: Sequence[tuple[int, int]],
    arithmetic: Arithmetic = Arithmetic.FLOAT,
) -> Graph:
    """Author the decoder; `docs/reference/model-directory.md` lists its inputs and outputs.

    Masks and positions are made by the host, which has their sizes at hand: in the graph they were
    a fifth of the nodes of a step. `alignment` are `(layer, head)` pairs whose cross-attention
    weights may be asked for: the queries of their layers are outputs. `arithmetic` is `FLOAT` or
    blocks; `Precision` says which products keep more bits.
    """
    b = _Decoder(checkpoint, arithmetic)
    b.declare_inputs()
    x = b.embed_tokens()
    change = ""
    for i in range(b.dims.n_decoder_layers):
        name = f"decoder.layers.{i}"
        x, normed = b.add_and_norm(x, change, f"{name}.self_attn_layer_norm")
        change = b.self_attention(normed, i)
        x, normed = b.add_and_norm(x, change, f"{name}.encoder_attn_layer_norm")
        change = b.cross_attention(normed, i)
        x, normed = b.add_and_norm(x, change, f"{name}.final_layer_norm")
        products = stored_linear(b, f"{name}.fc1"), stored_linear(b, f"{name}.fc2")
        change = mlp(b, normed, name, products, b.precision.others)
    _, normed = b.add_and_norm(x, change, "decoder.layer_norm")
    hidden = b.op("Gather", (normed, "positions"), "decoder.hidden", axis=1)
    b.project_to_vocabulary(hidden)
    for i in sorted({layer for layer, _ in alignment}):
        shape: tuple[int | str, ...] = ("batch", "n_tokens", b.dims.d_model)
        if b.in_codes:
            shape = ("windows", "m", b.dims.n_decoder_heads, b.dims.head_size)
        b.output(f"query_{i}", FLOAT, shape)
    return b.build()


class _Decoder(WhisperBuilder):
    """Writes the parts of a decoder.

    Attributes:
        in_codes: keys and values of the audio come in 8 bits.
    """

    def __init__(self, checkpoint: Checkpoint, arithmetic: Arithmetic) -> None:
        super().__init__("whisper_decoder", checkpoint)
        self.precision = Precision.of(arithmetic, checkpoint.config)
        self.in_codes = arithmetic is not Arithmetic.FLOAT

    def declare_inputs(self) -> None:
        """Declare inputs and the longer caches; write the values that all layers share."""
        self.input("tokens", INT64, ("batch", "n_tokens"))
        self.input("text_positions", INT64, ("batch", "n_tokens"))
        self.input("positions", INT64, ("K",))
        self.input("self_bias", FLOAT, ("batch", 1, "n_tokens", "n_columns or more"))
        self.input("last_column", INT32, ("batch",))
        self.input("n_columns", INT32, (1,))
        for i in range(self.dims.n_decoder_layers):
            for part in ("key", "value"):
                self._declare_cache(f"{part}_{i}")
        for i in range(self.dims.n_decoder_layers):
            for part in ("key", "value"):
                self._declare_audio(part, i)
        n_queries = 1 if self.in_codes else "n_tokens"
        self.input("cross_bias", FLOAT, ("windows", 1, n_queries, "n_positions + 1"))
        # The host may give one bias for all columns that there can be, once for many steps: cutting
        # it takes less than binding another array.
        first = self.constant(np.array([0], np.int32))
        axis = self.constant(np.array([3], np.int32))
        self.op("Slice", ("self_bias", first, "n_columns", axis), SELF_BIAS)
        if self.in_codes:
            self._write_shapes()

    def _declare_cache(self, name: str) -> None:
        """Declare one input of the cache, and the longer output that becomes the next one."""
        heads = self.dims.n_decoder_heads
        shape = ("batch", heads, "n_places", self.dims.cache_head_size)
        self.input(f"past_{name}", FLOAT, shape)
        self.output(f"present_{name}", FLOAT, shape)

    def _declare_audio(self, part: str, layer: int) -> None:
        """Declare the keys or values of the audio, and their scales if they are codes."""
        name = f"cross_{part}_{layer}"
        dtype, shape = _audio_form(name, self.dims, in_codes=self.in_codes)
        self.input(name, dtype, shape)
        if self.in_codes:
            scales_shape = (
                "windows",
                1,
                self.dims.n_decoder_heads,
                self.dims.head_size,
            )
            self.input(f"cross_{part}_scale_{layer}", FLOAT, scales_shape)

    def _write_shapes(self) -> None:
        """Write the shapes that cross-attention to codes gives its queries and its results."""
        windows = self.op("Shape", ("cross_bias",), "n_windows", start=0, end=1)
        sizes = self.constant([-1, self.dims.n_decoder_heads, self.dims.head_size])
        self.op("Concat", (windows, sizes), WINDOW_QUERIES, axis=0)
        rows = self.op("Shape", ("tokens",), "n_rows")
        self.op(
            "Concat", (rows, self.constant([self.dims.d_model])), ROW_VALUES, axis=0
        )

    def embed_tokens(self) -> str:
        """Write token embedding plus position embedding, `(batch, n_tokens, d_model)`."""
        bits = self.precision.kept.block_bits
        if bits is None:
            tokens = self.op(
                "Gather", (self.stored(_EMBEDDING), "tokens"), "decoder.tokens"
            )
        else:
            tokens = self._look_up_blocks(bits)
        table = self.stored("decoder.embed_positions.weight")
        positions = self.op("Gather", (table, "text_positions"), "decoder.places")
        return self.op("Add", (tokens, positions), "decoder.embedded")

    def _look_up_blocks(self, bits: int) -> str:
        """Write the lookup in a table of blocks, whose bytes the projection may share."""
        d_model = self.dims.d_model
        code_weight, scale_weight = quantized(self.checkpoint.weight(_EMBEDDING), bits)
        blocks = self.weight(f"{_EMBEDDING}.blocks", code_weight)
        flat_shape = (self.dims.n_vocab, d_model * bits // 8)
        codes = self.view(f"{_EMBEDDING}.codes", blocks, flat_shape)
        scales = self.weight(f"{_EMBEDDING}.scales", scale_weight)
        return self.op(
            "GatherBlockQuantized",
            (codes, "tokens", scales),
            "decoder.tokens",
            domain=MICROSOFT,
            bits=bits,
            block_size=block_size(d_model, bits),
            gather_axis=0,
            quantize_axis=1,
        )

    def add_and_norm(self, x: str, change: str, stem: str) -> tuple[str, str]:
        """Write `x + change` (`x` without a change) and its norm with the weights called `stem`.

        The runtime's operator for both takes 2 us for each row beyond the first, these two a tenth
        of it.
        """
        if change:
            x = self.op("Add", (x, change), f"{stem}.in")
        return x, layer_norm(self, x, f"{stem}.out", stem)

    def self_attention(self, normed: str, layer: int) -> str:
        """Write `out(attention(normed))` over the cache and this step's tokens."""
        name = f"decoder.layers.{layer}.self_attn"
        heads = self.dims.n_decoder_heads
        width = self.dims.cache_head_size
        fused = joined(
            query(self, name, self.dims.head_size),
            stored_linear(self, f"{name}.k_proj", bias=False),
            stored_linear(self, f"{name}.v_proj"),
        )
        wide = with_wider_outputs(fused, 3 * heads, width)
        qkv = linear(self, normed, f"{name}.qkv", wide, self.precision.kept)
        attended = attend_to_cache(self, f"{name}.mixed", qkv, layer, heads)
        out = with_wider_inputs(stored_linear(self, f"{name}.out_proj"), heads, width)
        return linear(self, attended, f"{name}.out", out, self.precision.others)

    def cross_attention(self, normed: str, layer: int) -> str:
        """Write `out(attention(normed))` over keys and values of the audio."""
        name = f"decoder.layers.{layer}.encoder_attn"
        arithmetic = self.precision.others
        weights = query(self, name, self.dims.head_size)
        if self.in_codes:
            queries = linear(self, normed, f"{name}.q", weights, arithmetic)
            split = self.op("Reshape", (queries, WINDOW_QUERIES), f"{name}.q.by_window")
            scaled = self.op(
                "Mul", (split, f"cross_key_scale_{layer}"), f"query_{layer}"
            )
            values = attend_int8(self, f"{name}.values", scaled, layer)
            attended = self.op("Reshape", (values, ROW_VALUES), f"{name}.mixed")
        else:
            queries = linear(self, normed, f"query_{layer}", weights, arithmetic)
            qkv = (queries, f"cross_key_{layer}", f"cross_value_{layer}")
            heads = self.dims.n_decoder_heads
            attended = attend(self, f"{name}.mixed", qkv, heads, bias="cross_bias")
        out = stored_linear(self, f"{name}.out_proj")
        return linear(self, attended, f"{name}.out", out, arithmetic)

    def project_to_vocabulary(self, hidden: str) -> None:
        """Output `logits (batch, K, n_vocab)` and `logsumexp (batch, K)` of `hidden (batch, K, d)`.

        The sum is the difference that LogSoftmax makes to any logit: ReduceLogSumExp would give it
        directly, seventeen times slower.
        """
        tied = self.checkpoint.tied and self.precision.vocabulary is self.precision.kept
        bits = self.precision.vocabulary.block_bits
        if bits is None:
            self._float_logits(hidden, tied=tied)
        else:
            self._blocked_logits(hidden, bits, tied=tied)
        self.output("logits", FLOAT, ("batch", "K", self.dims.n_vocab))
        first = self.constant(0)
        logprobs = self.op("LogSoftmax", ("logits",), "logprobs", axis=-1)
        logit = self.op("Gather", ("logits", first), "logits.first", axis=-1)
        logprob = self.op("Gather", (logprobs, first), f"{logprobs}.first", axis=-1)
        self.op("Sub", (logit, logprob), "logsumexp")
        self.output("logsumexp", FLOAT, ("batch", "K"))

    def _float_logits(self, hidden: str, *, tied: bool) -> None:
        """Write a Gemm, which takes the table as it is in the file, `(n_vocab, d_model)`."""
        n_vocab = self.dims.n_vocab
        d_model = self.dims.d_model
        scope = self.scope(_PROJECTION)
        if tied:
            table = self.view(f"{_PROJECTION}.weight", _EMBEDDING, (n_vocab, d_model))
        else:
            table = self.weight(f"{_PROJECTION}.weight", self.checkpoint.projection())
        flat = scope.op("Reshape", (hidden, self.constant([-1, d_model])), "flat")
        product = scope.op("Gemm", (flat, table), "product", transB=1)
        leading = scope.op("Shape", (hidden,), "leading", start=0, end=2)
        shape = scope.op("Concat", (leading, self.constant([n_vocab])), "shape", axis=0)
        self.op("Reshape", (product, shape), "logits", allowzero=1)  # K may be 0

    def _blocked_logits(self, hidden: str, bits: int, *, tied: bool) -> None:
        table = self.checkpoint.projection()
        n_vocab = self.dims.n_vocab
        d_model = self.dims.d_model
        if tied:
            n_blocks = d_model // block_size(d_model, bits, VOCABULARY_BLOCK)
            codes = f"{_EMBEDDING}.blocks"
            scales = self.view(
                f"{_PROJECTION}.scales", f"{_EMBEDDING}.scales", (n_vocab, n_blocks)
            )
        else:
            code_weight, scale_weight = quantized(table, bits, VOCABULARY_BLOCK)
            codes = self.weight(f"{_PROJECTION}.codes", code_weight)
            scales = self.weight(f"{_PROJECTION}.scales", scale_weight)
        inputs = [hidden, codes, scales]
        if bits == 4:  # in 8 bits it changes nothing
            # The norm's bias is what hidden states are on average.
            mean = self.checkpoint.weight("decoder.layer_norm.bias")
            shift = rounding_shift(table, mean, bits, VOCABULARY_BLOCK)
            inputs += ["", "", self.weight(f"{_PROJECTION}.shift", shift)]
        matmul_n_bits(
            self,
            inputs,
            "logits",
            table.shape,
            bits,
            largest=VOCABULARY_BLOCK,
        )


def cross_kv_graph(
    checkpoint: Checkpoint, arithmetic: Arithmetic = Arithmetic.FLOAT
) -> Graph:
    """Author the cross-attention key and value projections of all decoder layers.

    Input `audio_features (batch, n_positions, d_model)`; outputs for each layer i
    `cross_key_{i}` and `cross_value_{i} (batch, heads, n_positions + 1, head_size)`. The last
    position is a zero row of audio features: key 0 (keys have no bias), value b_v. One such
    position with score ln P is worth P zero rows.

    Where the arithmetic of the projections is not float, these are 8-bit codes whose zero is
    `SIGNLESS_ZERO`, and `cross_key_scale_{i}` and `cross_value_scale_{i} (batch, 1, heads,
    head_size)` what one step of each channel is worth in each row. Keys of codes come in blocks,
    `(batch, heads, blocks, head_size, AUDIO_BLOCK)`: `n_positions + 1` is a multiple of it.
    """
    b = WhisperBuilder("whisper_cross_kv", checkpoint)
    features = b.input(
        "audio_features", FLOAT, ("batch", "n_positions", b.dims.d_model)
    )
    padded = _add_zero_row(b, quantize_once(b, features, arithmetic))
    in_codes = arithmetic is not Arithmetic.FLOAT
    for i in range(b.dims.n_decoder_layers):
        attention = f"decoder.layers.{i}.encoder_attn"
        key_weights = stored_linear(b, f"{attention}.k_proj", bias=False)
        value_weights = stored_linear(b, f"{attention}.v_proj")
        if in_codes:
            weights = joined(key_weights, value_weights)
            both = linear(b, padded, f"{attention}.kv", weights, arithmetic)
            codes = _write_codes(b, both, i)
            names = (f"cross_key_{i}.flat", f"cross_value_{i}.flat")
            keys, values = b.ops("Split", (codes,), names, axis=-1)
        else:
            keys = linear(b, padded, f"{attention}.k", key_weights)
            values = linear(b, padded, f"{attention}.v", value_weights)
        _output_heads(b, f"cross_key_{i}", keys, in_blocks=in_codes)
        _output_heads(b, f"cross_value_{i}", values)
        for name in (f"cross_key_{i}", f"cross_value_{i}"):
            dtype, shape = _audio_form(name, b.dims, in_codes=in_codes)
            b.output(name, dtype, shape)
    return b.build()


def _output_heads(
    b: WhisperBuilder,
    name: str,
    x: str,
    *,
    in_blocks: bool = False,
) -> None:
    """Write `x (batch, n, d_model)` split into heads, the positions of each next to each other."""
    heads = b.dims.n_decoder_heads
    size = b.dims.head_size
    # 0 keeps an axis, also one of no rows, where -1 would be any number.
    shape = [0, 0, heads, size]
    perm = [0, 2, 1, 3]
    if in_blocks:
        shape = [0, -1, AUDIO_BLOCK, heads, size]
        perm = [0, 3, 1, 4, 2]
    split = b.op("Reshape", (x, b.constant(shape)), f"{name}.apart")
    b.op("Transpose", (split,), name, perm=perm)


def _audio_form(
    name: str, dims: Dimensions, *, in_codes: bool
) -> tuple[int, tuple[int | str, ...]]:
    """Return type and shape of `cross_key_{i}` or `cross_value_{i}`."""
    heads = dims.n_decoder_heads
    size = dims.head_size
    if in_codes and name.startswith("cross_key"):
        return UINT8, ("windows", heads, "blocks", size, AUDIO_BLOCK)
    dtype = UINT8 if in_codes else FLOAT
    return dtype, ("windows", heads, "n_positions + 1", size)


def _write_codes(b: WhisperBuilder, both: str, layer: int) -> str:
    """Write codes from 1 to 255 of keys and values, one after the other; their scales are outputs.

    The largest value of a channel in the window becomes 127 steps; a channel that is smaller than
    1e-20 everywhere counts as silent. Pooling over some positions leaves few rows for the
    reduction over the middle axis, which the runtime does five times as slowly.
    """
    scope = b.scope(both)
    magnitudes = scope.op("Abs", (both,), "absolute")
    image = scope.op("Unsqueeze", (magnitudes, b.constant([1])), "picture")
    window = [16, 1]
    pooled = scope.op(
        "MaxPool", (image,), "pooled", kernel_shape=window, strides=window, ceil_mode=1
    )
    largest = scope.op("ReduceMax", (pooled,), "largest", axes=[1, 2], keepdims=0)
    row = scope.op("Unsqueeze", (largest, b.constant([1])), "largest_row")
    not_zero = scope.op("Max", (row, b.constant(1e-20)), "some")
    step = scope.op("Div", (not_zero, b.constant(127.0)), "step")
    outputs = (f"cross_key_scale_{layer}", f"cross_value_scale_{layer}")
    parts = b.ops("Split", (step,), [f"{output}.flat" for output in outputs], axis=-1)
    shape = (1, b.dims.n_decoder_heads, b.dims.head_size)
    for part, output in zip(parts, outputs, strict=True):
        b.op("Reshape", (part, b.constant([0, *shape])), output)
        b.output(output, FLOAT, ("windows", *shape))
    steps = scope.op("Div", (both, step), "steps")
    zero = b.constant(np.array(SIGNLESS_ZERO, np.uint8))
    return scope.op("QuantizeLinear", (steps, b.constant(1.0), zero), "steps_8")


def _add_zero_row(b: WhisperBuilder, x: Operand) -> Operand:
    """Write `(batch, n, d_model)` -> `(batch, n + 1, d_model)`, the last row zeros."""
    if isinstance(x, Rounded):
        rows = x.codes
        zero = x.zero
    else:
        rows = x
        zero = b.weight("zero", ready_weight(np.zeros((1,), np.float32)))
    batch = b.op("Shape", (rows,), "batch", start=0, end=1)
    shape = b.op(
        "Concat", (batch, b.constant([1, b.dims.d_model])), "zero_row.shape", axis=0
    )
    row = b.op("Expand", (zero, shape), "zero_row")
    padded = b.op("Concat", (rows, row), "padded_features", axis=1)
    return replace(x, codes=padded) if isinstance(x, Rounded) else padded
