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
    Rounded,
    Seen,
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
            text, which every later step hears again.
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
            return cls(arithmetic, arithmetic, arithmetic)
        dims, width = config.dims, config.dims.d_model
        # Self-attention has four matrices, cross-attention two that a step reads, the MLP two.
        layer = 6 * width * width + 2 * width * config.decoder_ffn
        keeps_others = dims.n_vocab * width > dims.n_decoder_layers * layer
        kept = Arithmetic.BLOCKS_8
        return cls(arithmetic, kept, kept if keeps_others else arithmetic)


_EMBEDDING = "decoder.embed_tokens.weight"
_PROJECTION = "decoder.projection"

VOCABULARY_BLOCK = 128
"""Values with one scale at most, in 4 bits as in 8: a third quicker than half of that in 4."""


def decoder_graph(
    checkpoint: Checkpoint,
    alignment: Sequence[tuple[int, int]],
    arithmetic: Arithmetic = Arithmetic.FLOAT,
) -> Graph:
    """Author the decoder; `docs/reference/model-directory.md` lists its inputs and outputs.

    Masks and places are made by the host, which knows them without asking: in the graph they were
    a fifth of the nodes of a step. `alignment` are `(layer, head)` pairs whose cross-attention
    weights will be wanted: the queries of their layers are outputs. `arithmetic` is `FLOAT` or
    blocks; `Precision` says which products keep more bits.
    """
    b = _Decoder("whisper_decoder", checkpoint)
    b.precision = Precision.of(arithmetic, checkpoint.config)
    b.in_codes = arithmetic is not Arithmetic.FLOAT
    b.declare_inputs()
    x, change = b.embed_tokens(), ""
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
    b.project_to_vocabulary(b.op("Gather", (normed, "positions"), "decoder.hidden", axis=1))
    for i in sorted({layer for layer, _ in alignment}):
        shape: tuple[int | str, ...] = ("batch", "n_tokens", b.dims.d_model)
        if b.in_codes:
            shape = ("windows", "m", b.dims.n_decoder_heads, b.dims.head_size)
        b.output(f"query_{i}", FLOAT, shape)
    return b.build()


class _Decoder(WhisperBuilder):
    """Writes the pieces of a decoder.

    Attributes:
        in_codes: keys and values of the audio come in 8 bits.
    """

    precision: Precision
    in_codes: bool

    def declare_inputs(self) -> None:
        """Declare the inputs, and the longer caches; write what all layers make of the inputs."""
        heads, size = self.dims.n_decoder_heads, self.dims.head_size
        self.input("tokens", INT64, ("batch", "n_tokens"))
        self.input("text_positions", INT64, ("batch", "n_tokens"))
        self.input("positions", INT64, ("K",))
        self.input("self_bias", FLOAT, ("batch", 1, "n_tokens", "n_columns or more"))
        self.input("last_column", INT32, ("batch",))
        self.input("n_columns", INT32, (1,))
        layers = range(self.dims.n_decoder_layers)
        for name in (f"{part}_{i}" for i in layers for part in ("key", "value")):
            shape = ("batch", heads, "n_places", self.dims.cache_head_size)
            self.input(f"past_{name}", FLOAT, shape)
            self.output(f"present_{name}", FLOAT, shape)
        for i in layers:
            for part in ("key", "value"):
                name = f"cross_{part}_{i}"
                self.input(name, *_audio_form(name, self.dims, in_codes=self.in_codes))
                if self.in_codes:
                    scales = ("windows", 1, heads, size)
                    self.input(f"cross_{part}_scale_{i}", FLOAT, scales)
        n_queries = 1 if self.in_codes else "n_tokens"
        self.input("cross_bias", FLOAT, ("windows", 1, n_queries, "n_positions + 1"))
        # The host may give one bias for all columns there can be, once for many steps: the cut
        # takes less than telling the runtime of another array.
        first, axis = (self.constant(np.array([n], np.int32)) for n in (0, 3))
        self.op("Slice", ("self_bias", first, "n_columns", axis), SELF_BIAS)
        if self.in_codes:
            windows = self.op("Shape", ("cross_bias",), "n_windows", start=0, end=1)
            self.op("Concat", (windows, self.constant([-1, heads, size])), WINDOW_QUERIES, axis=0)
            rows = self.op("Shape", ("tokens",), "n_rows")
            self.op("Concat", (rows, self.constant([self.dims.d_model])), ROW_VALUES, axis=0)

    def embed_tokens(self) -> str:
        """Write token embedding plus position embedding, `(batch, n_tokens, d_model)`."""
        bits, d_model = self.precision.kept.block_bits, self.dims.d_model
        if bits is None:
            rows = self.op("Gather", (self.stored(_EMBEDDING), "tokens"), "decoder.tokens")
        else:
            codes, scales = quantized(self.checkpoint.weight(_EMBEDDING), bits)
            blocks = self.weight(f"{_EMBEDDING}.blocks", codes)
            shape = (self.dims.n_vocab, d_model * bits // 8)
            flat = self.view(f"{_EMBEDDING}.codes", blocks, shape)
            rows = self.op(
                "GatherBlockQuantized",
                (flat, "tokens", self.weight(f"{_EMBEDDING}.scales", scales)),
                "decoder.tokens",
                domain=MICROSOFT,
                bits=bits,
                block_size=block_size(d_model, bits),
                gather_axis=0,
                quantize_axis=1,
            )
        places = self.stored("decoder.embed_positions.weight")
        place = self.op("Gather", (places, "text_positions"), "decoder.places")
        return self.op("Add", (rows, place), "decoder.embedded")

    def add_and_norm(self, x: str, change: str, stem: str) -> tuple[str, str]:
        """Write `x + change` (`x` without a change) and its norm with the weights called `stem`.

        The runtime's operator for both takes 2 us for each row beyond the first; these two a tenth.
        """
        added = self.op("Add", (x, change), f"{stem}.in") if change else x
        return added, layer_norm(self, added, f"{stem}.out", stem)

    def self_attention(self, normed: str, layer: int) -> str:
        """Write `out(attention(normed))` over the cache and this step's tokens."""
        name = f"decoder.layers.{layer}.self_attn"
        heads, width = self.dims.n_decoder_heads, self.dims.cache_head_size
        fused = joined(
            query(self, name, self.dims.head_size),
            stored_linear(self, f"{name}.k_proj", bias=False),
            stored_linear(self, f"{name}.v_proj"),
        )
        wide = with_wider_outputs(fused, 3 * heads, width)
        qkv = linear(self, normed, f"{name}.qkv", wide, self.precision.kept)
        mixed = attend_to_cache(self, f"{name}.mixed", qkv, layer, heads)
        out = with_wider_inputs(stored_linear(self, f"{name}.out_proj"), heads, width)
        return linear(self, mixed, f"{name}.out", out, self.precision.others)

    def cross_attention(self, normed: str, layer: int) -> str:
        """Write `out(attention(normed))` over keys and values of the audio."""
        name, precision = f"decoder.layers.{layer}.encoder_attn", self.precision.others
        weights = query(self, name, self.dims.head_size)
        if self.in_codes:
            asked = linear(self, normed, f"{name}.q", weights, precision)
            apart = self.op("Reshape", (asked, WINDOW_QUERIES), f"{name}.q.by_window")
            scaled = self.op("Mul", (apart, f"cross_key_scale_{layer}"), f"query_{layer}")
            values = attend_int8(self, f"{name}.values", scaled, layer)
            mixed = self.op("Reshape", (values, ROW_VALUES), f"{name}.mixed")
        else:
            asked = linear(self, normed, f"query_{layer}", weights, precision)
            qkv = (asked, f"cross_key_{layer}", f"cross_value_{layer}")
            heads = self.dims.n_decoder_heads
            mixed = attend(self, f"{name}.mixed", qkv, heads, bias="cross_bias")
        return linear(
            self, mixed, f"{name}.out", stored_linear(self, f"{name}.out_proj"), precision
        )

    def project_to_vocabulary(self, hidden: str) -> None:
        """Output `logits (batch, K, n_vocab)` and `logsumexp (batch, K)` of `hidden (batch, K, d)`.

        The sum is what any logit loses in LogSoftmax: one operator and no power of its own, where
        ReduceLogSumExp runs seventeen times slower.
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
        before, after = (
            self.op("Gather", (name, first), f"{name}.first", axis=-1)
            for name in ("logits", logprobs)
        )
        self.op("Sub", (before, after), "logsumexp")
        self.output("logsumexp", FLOAT, ("batch", "K"))

    def _float_logits(self, hidden: str, *, tied: bool) -> None:
        """Write a Gemm, which takes the table as it lies in the file, `(n_vocab, d_model)`."""
        name, dims = f"{_PROJECTION}.weight", self.dims
        if tied:
            table = self.view(name, _EMBEDDING, (dims.n_vocab, dims.d_model))
        else:
            table = self.weight(name, self.checkpoint.projection())
        flat = self.op(
            "Reshape", (hidden, self.constant([-1, dims.d_model])), f"{_PROJECTION}.flat"
        )
        product = self.op("Gemm", (flat, table), f"{_PROJECTION}.product", transB=1)
        leading = self.op("Shape", (hidden,), f"{_PROJECTION}.leading", start=0, end=2)
        sizes = (leading, self.constant([dims.n_vocab]))
        shape = self.op("Concat", sizes, f"{_PROJECTION}.shape", axis=0)
        self.op("Reshape", (product, shape), "logits", allowzero=1)  # no position may be asked for

    def _blocked_logits(self, hidden: str, bits: int, *, tied: bool) -> None:
        table, dims = self.checkpoint.projection(), self.dims
        if tied:
            shape = (dims.n_vocab, dims.d_model // block_size(dims.d_model, bits, VOCABULARY_BLOCK))
            scales = self.view(f"{_PROJECTION}.scales", f"{_EMBEDDING}.scales", shape)
            inputs = [hidden, f"{_EMBEDDING}.blocks", scales]
        else:
            codes, scale_weight = quantized(table, bits, VOCABULARY_BLOCK)
            blocks = self.weight(f"{_PROJECTION}.codes", codes)
            inputs = [hidden, blocks, self.weight(f"{_PROJECTION}.scales", scale_weight)]
        if bits == 4:  # in 8 bits it changes nothing
            # The norm's bias is what hidden states are on average.
            mean = self.checkpoint.weight("decoder.layer_norm.bias")
            shift = rounding_shift(table, mean, bits, VOCABULARY_BLOCK)
            inputs += ["", "", self.weight(f"{_PROJECTION}.shift", shift)]
        matmul_n_bits(self, inputs, "logits", table.shape, bits, largest=VOCABULARY_BLOCK)


def cross_kv_graph(checkpoint: Checkpoint, arithmetic: Arithmetic = Arithmetic.FLOAT) -> Graph:
    """Author the cross-attention key and value projections of all decoder layers.

    Input `audio_features (batch, n_positions, d_model)`; outputs for each layer i
    `cross_key_{i}` and `cross_value_{i} (batch, heads, n_positions + 1, head_size)`. The last
    position is that of a zero row of audio features: key 0 (keys have no bias), value b_v. One such
    position with score ln P is worth P zero rows.

    Where the arithmetic of the projections is not float, these are 8-bit codes whose zero is
    `SIGNLESS_ZERO`, and `cross_key_scale_{i}` and `cross_value_scale_{i} (batch, 1, heads,
    head_size)` what one step of each channel is worth in each row. Keys of codes come in blocks,
    `(batch, heads, blocks, head_size, AUDIO_BLOCK)`: `n_positions + 1` is a multiple of it.
    """
    b = WhisperBuilder("whisper_cross_kv", checkpoint)
    heads, size = b.dims.n_decoder_heads, b.dims.head_size
    features = b.input("audio_features", FLOAT, ("batch", "n_positions", b.dims.d_model))
    seen = _one_zero_row_more(b, quantize_once(b, features, arithmetic))
    in_codes = arithmetic is not Arithmetic.FLOAT
    for i in range(b.dims.n_decoder_layers):
        attention = f"decoder.layers.{i}.encoder_attn"
        key = stored_linear(b, f"{attention}.k_proj", bias=False)
        value = stored_linear(b, f"{attention}.v_proj")
        names = (f"cross_key_{i}", f"cross_value_{i}")
        if in_codes:
            both = linear(b, seen, f"{attention}.kv", joined(key, value), arithmetic)
            codes = _in_8_bits(b, both, i)
            parts = b.ops("Split", (codes,), [f"{name}.flat" for name in names], axis=-1)
        else:
            parts = (
                linear(b, seen, f"{attention}.k", key),
                linear(b, seen, f"{attention}.v", value),
            )
        for name, part in zip(names, parts, strict=True):
            in_blocks = in_codes and name == names[0]
            # 0 keeps an axis, also one of no rows, where -1 would be any number.
            shape = [0, -1, AUDIO_BLOCK, heads, size] if in_blocks else [0, 0, heads, size]
            apart = b.op("Reshape", (part, b.constant(shape)), f"{name}.apart")
            b.op("Transpose", (apart,), name, perm=[0, 3, 1, 4, 2] if in_blocks else [0, 2, 1, 3])
            b.output(name, *_audio_form(name, b.dims, in_codes=in_codes))
    return b.build()


def _audio_form(
    name: str, dims: Dimensions, *, in_codes: bool
) -> tuple[int, tuple[int | str, ...]]:
    """Return type and shape of `cross_key_{i}` or `cross_value_{i}`."""
    heads, size = dims.n_decoder_heads, dims.head_size
    if in_codes and name.startswith("cross_key"):
        return UINT8, ("windows", heads, "blocks", size, AUDIO_BLOCK)
    return UINT8 if in_codes else FLOAT, ("windows", heads, "n_positions + 1", size)


def _in_8_bits(b: WhisperBuilder, both: str, layer: int) -> str:
    """Write codes from 1 to 255 of keys and values side by side; their scales are outputs.

    The largest value of a channel in the window becomes 127 steps; one that is smaller than 1e-20
    everywhere counts as silent. Pooling over some positions leaves few rows for the
    reduction over the middle axis, which the runtime does five times as slowly.
    """
    size = b.op("Abs", (both,), f"{both}.absolute")
    picture = b.op("Unsqueeze", (size, b.constant([1])), f"{both}.picture")
    window = [16, 1]
    pooled = b.op(
        "MaxPool", (picture,), f"{both}.pooled", kernel_shape=window, strides=window, ceil_mode=1
    )
    largest = b.op("ReduceMax", (pooled,), f"{both}.largest", axes=[1, 2], keepdims=0)
    row = b.op("Unsqueeze", (largest, b.constant([1])), f"{both}.largest_row")
    some = b.op("Max", (row, b.constant(1e-20)), f"{both}.some")
    step = b.op("Div", (some, b.constant(127.0)), f"{both}.step")
    outputs = [f"cross_{part}_scale_{layer}" for part in ("key", "value")]
    parts = b.ops("Split", (step,), [f"{output}.flat" for output in outputs], axis=-1)
    for part, output in zip(parts, outputs, strict=True):
        shape = (1, b.dims.n_decoder_heads, b.dims.head_size)
        b.op("Reshape", (part, b.constant([0, *shape])), output)
        b.output(output, FLOAT, ("windows", *shape))
    steps = b.op("Div", (both, step), f"{both}.steps")
    zero = b.constant(np.array(SIGNLESS_ZERO, np.uint8))
    return b.op("QuantizeLinear", (steps, b.constant(1.0), zero), f"{both}.steps_8")


def _one_zero_row_more(b: WhisperBuilder, x: Seen) -> Seen:
    """Write `(batch, n, d_model)` -> `(batch, n + 1, d_model)`, the last row zeros."""
    if isinstance(x, Rounded):
        rows, zero = x.codes, x.zero
    else:
        rows, zero = x, b.weight("zero", ready_weight(np.zeros((1,), np.float32)))
    batch = b.op("Shape", (rows,), "batch", start=0, end=1)
    shape = b.op("Concat", (batch, b.constant([1, b.dims.d_model])), "zero_row.shape", axis=0)
    row = b.op("Expand", (zero, shape), "zero_row")
    padded = b.op("Concat", (rows, row), "padded_features", axis=1)
    return replace(x, codes=padded) if isinstance(x, Rounded) else padded
