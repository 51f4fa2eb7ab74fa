"""The cached decoder graph: tokens and cached keys and values -> logits and a longer cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.weights import Weight
from whisper_hailo.convert.graphs.attention import (
    ROW_VALUES,
    SELF_BIAS,
    WINDOW_QUERIES,
    attend,
    attend_to_cache,
    attend_to_codes,
)
from whisper_hailo.convert.graphs.builder import (
    FLOAT,
    INT32,
    INT64,
    MICROSOFT,
    Graph,
    GraphBuilder,
)
from whisper_hailo.convert.graphs.cross_kv import audio_form
from whisper_hailo.convert.graphs.layers import add_and_norm, layer_norm, mlp_change, mlp_products
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    checkpoint_linear,
    fused_qkv,
    linear,
    matmul_n_bits,
    query,
    with_wider_inputs,
    with_wider_outputs,
)
from whisper_hailo.convert.graphs.quantize import block_size, quantized, rounding_shift
from whisper_hailo.core.spec import Dimensions


@dataclass(frozen=True, slots=True)
class Precision:
    """Arithmetic of the products of a decoder.

    Four bits are for what a step spends its time on. They cost a tenth of the words where
    everything has them, most of it for nothing (`docs/measurements/quantisation.md`).

    Attributes:
        embedding: the token table where single rows of it are looked up.
        vocabulary: the same table where all of it is read, to project to the vocabulary.
        self_attention: query, key and value of the text, which every later step hears again.
        others: all other products of the layers.
    """

    embedding: Arithmetic
    vocabulary: Arithmetic
    self_attention: Arithmetic
    others: Arithmetic

    @classmethod
    def of(cls, arithmetic: Arithmetic, config: Config) -> Precision:
        """What a conversion to some arithmetic takes.

        In 4 bits, rows that are looked up stay at 8, since a step reads one of 50,000. So do the
        layers where the token table is the larger part of what a step reads (tiny, base): that
        costs a step some per cent. In deeper decoders only the queries, keys and values do.
        """
        if arithmetic is not Arithmetic.BLOCKS_4:
            return cls(arithmetic, arithmetic, arithmetic, arithmetic)
        kept = Arithmetic.BLOCKS_8
        others = kept if _table_outweighs_layers(config) else arithmetic
        return cls(kept, arithmetic, kept, others)


def _table_outweighs_layers(config: Config) -> bool:
    """Whether the token table has more weights than the decoder's layers together."""
    dims, width = config.dims, config.dims.d_model
    # Self-attention has four matrices, cross-attention two that a step reads, the MLP two.
    layer = 6 * width * width + 2 * width * config.decoder_ffn
    return dims.n_vocab * width > dims.n_decoder_layers * layer


_EMBEDDING = "decoder.embed_tokens.weight"
_PROJECTION = "decoder.projection"

VOCABULARY_BLOCK = 128
"""Values with one scale at most, in 4 bits as in 8: a third quicker than half of that in 4."""

_CORRECTED_BITS = 4
"""Of what is rounded so far the mean is corrected; in 8 bits that changes nothing."""


def embed_tokens(
    b: GraphBuilder, checkpoint: Checkpoint, tokens: str, positions: str, arithmetic: Arithmetic
) -> str:
    """Token embedding plus position embedding, `(batch, n_tokens, d_model)`."""
    table, bits = checkpoint.weight(_EMBEDDING), arithmetic.block_bits
    if bits is None:
        rows = b.op("Gather", (b.weight(_EMBEDDING, table), tokens), "decoder.tokens")
    else:
        rows = _gather_blocks(b, table, tokens, bits)
    stem = "decoder.embed_positions.weight"
    place = b.op("Gather", (b.weight(stem, checkpoint.weight(stem)), positions), "decoder.places")
    return b.op("Add", (rows, place), "decoder.embedded")


def _gather_blocks(b: GraphBuilder, table: Weight, tokens: str, bits: int) -> str:
    codes, scales = quantized(table, bits)
    n_vocab, d_model = table.shape
    b.weight(f"{_EMBEDDING}.blocks", codes)
    flat = b.view(f"{_EMBEDDING}.codes", f"{_EMBEDDING}.blocks", (n_vocab, d_model * bits // 8))
    return b.op(
        "GatherBlockQuantized",
        (flat, tokens, b.weight(f"{_EMBEDDING}.scales", scales)),
        "decoder.tokens",
        domain=MICROSOFT,
        bits=bits,
        block_size=block_size(d_model, bits),
        gather_axis=0,
        quantize_axis=1,
    )


def project_to_vocabulary(
    b: GraphBuilder, checkpoint: Checkpoint, hidden: str, precision: Precision
) -> None:
    """Outputs `logits (batch, K, n_vocab)` and `logsumexp (batch, K)` of `hidden (batch, K, d)`."""
    bits = precision.vocabulary.block_bits
    tied = checkpoint.tied and precision.vocabulary is precision.embedding
    if bits is None:
        _float_logits(b, checkpoint, hidden, tied=tied)
    else:
        _blocked_logits(b, checkpoint, hidden, bits, tied=tied)
    b.output("logits", FLOAT, ("batch", "K", checkpoint.config.dims.n_vocab))
    _log_sum_exp(b)


def _log_sum_exp(b: GraphBuilder) -> None:
    """`logsumexp (batch, K)` of the logits.

    What any logit loses in LogSoftmax: one operator and no power of its own, where ReduceLogSumExp
    runs seventeen times slower.
    """
    first = b.constant(0)
    logprobs = b.op("LogSoftmax", ("logits",), "logprobs", axis=-1)
    before, after = (
        b.op("Gather", (name, first), f"{name}.first", axis=-1) for name in ("logits", logprobs)
    )
    b.op("Sub", (before, after), "logsumexp")
    b.output("logsumexp", FLOAT, ("batch", "K"))


def _float_logits(b: GraphBuilder, checkpoint: Checkpoint, hidden: str, *, tied: bool) -> None:
    """Gemm takes the table as it lies in the file, `(n_vocab, d_model)`."""
    dims = checkpoint.config.dims
    name = f"{_PROJECTION}.weight"
    if tied:
        table = b.view(name, _EMBEDDING, (dims.n_vocab, dims.d_model))
    else:
        table = b.weight(name, checkpoint.projection())
    flat = b.op("Reshape", (hidden, b.constant([-1, dims.d_model])), f"{_PROJECTION}.flat")
    product = b.op("Gemm", (flat, table), f"{_PROJECTION}.product", transB=1)
    leading = b.op("Shape", (hidden,), f"{_PROJECTION}.leading", start=0, end=2)
    shape = b.op("Concat", (leading, b.constant([dims.n_vocab])), f"{_PROJECTION}.shape", axis=0)
    b.op("Reshape", (product, shape), "logits", allowzero=1)  # no position may be asked for


def _blocked_logits(
    b: GraphBuilder, checkpoint: Checkpoint, hidden: str, bits: int, *, tied: bool
) -> None:
    dims = checkpoint.config.dims
    block = block_size(dims.d_model, bits, VOCABULARY_BLOCK)
    if tied:
        blocks = f"{_EMBEDDING}.blocks"
        shape = (dims.n_vocab, dims.d_model // block)
        scales = b.view(f"{_PROJECTION}.scales", f"{_EMBEDDING}.scales", shape)
    else:
        codes, scale_weight = quantized(checkpoint.projection(), bits, VOCABULARY_BLOCK)
        blocks = b.weight(f"{_PROJECTION}.codes", codes)
        scales = b.weight(f"{_PROJECTION}.scales", scale_weight)
    inputs = [hidden, blocks, scales]
    if bits == _CORRECTED_BITS:
        # The norm's bias is what hidden states are on average: what rounding does to it is known.
        mean = checkpoint.weight("decoder.layer_norm.bias")
        shift = rounding_shift(checkpoint.projection(), mean, bits, VOCABULARY_BLOCK)
        inputs += ["", "", b.weight(f"{_PROJECTION}.shift", shift)]
    sizes = {"bits": bits, "n_in": dims.d_model, "n_out": dims.n_vocab, "block": block}
    matmul_n_bits(b, inputs, "logits", **sizes)


HeadPairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Decoder:
    """What every layer of the decoder shares."""

    checkpoint: Checkpoint
    dims: Dimensions
    precision: Precision

    @property
    def in_codes(self) -> bool:
        """Whether keys and values of the audio come in 8 bits."""
        return self.precision.vocabulary is not Arithmetic.FLOAT


def decoder_graph(
    checkpoint: Checkpoint,
    alignment: HeadPairs,
    arithmetic: Arithmetic = Arithmetic.FLOAT,
) -> Graph:
    """Author the decoder; `docs/reference/model-directory.md` lists its inputs and outputs.

    Masks and places are made by the host, which knows them without asking: in the graph they were
    a fifth of the nodes of a step.

    Args:
        checkpoint: where the arrays come from.
        alignment: `(layer, head)` pairs whose cross-attention weights will be wanted: the queries
            of their layers are outputs.
        arithmetic: `FLOAT` or blocks; `Precision` says which products keep more bits.
    """
    precision = Precision.of(arithmetic, checkpoint.config)
    of = _Decoder(checkpoint, checkpoint.config.dims, precision)
    b = GraphBuilder("whisper_decoder")
    _declare_inputs(b, of)
    _cut_self_bias(b)
    _prepare_cross_attention(b, of)
    x = embed_tokens(b, checkpoint, "tokens", "text_positions", precision.embedding)
    normed = layer_norm(b, x, f"{_norms(0)[0]}.out", checkpoint, _norms(0)[0])
    for i in range(of.dims.n_decoder_layers):
        _, before_cross, before_mlp = _norms(i)
        change = _self_attention(b, normed, i, of)
        x, normed = add_and_norm(b, x, change, checkpoint, before_cross)
        change = _cross_attention(b, normed, i, of)
        x, normed = add_and_norm(b, x, change, checkpoint, before_mlp)
        name = f"decoder.layers.{i}"
        products = mlp_products(checkpoint, name)
        change = mlp_change(b, normed, name, products, precision.others)
        is_last = i + 1 == of.dims.n_decoder_layers
        following = "decoder.layer_norm" if is_last else _norms(i + 1)[0]
        x, normed = add_and_norm(b, x, change, checkpoint, following)
    hidden = b.op("Gather", (normed, "positions"), "decoder.hidden", axis=1)
    project_to_vocabulary(b, checkpoint, hidden, precision)
    for i in sorted({layer for layer, _ in alignment}):
        shape: tuple[int | str, ...] = ("batch", "n_tokens", of.dims.d_model)
        if of.in_codes:
            shape = ("windows", "m", of.dims.n_decoder_heads, of.dims.head_size)
        b.output(f"query_{i}", FLOAT, shape)
    return b.build()


def _prepare_cross_attention(b: GraphBuilder, of: _Decoder) -> None:
    """What all layers' attention to the audio shares."""
    if of.in_codes:
        windows = b.op("Shape", ("cross_bias",), "n_windows", start=0, end=1)
        sizes = b.constant([-1, of.dims.n_decoder_heads, of.dims.head_size])
        b.op("Concat", (windows, sizes), WINDOW_QUERIES, axis=0)
        rows = b.op("Shape", ("tokens",), "n_rows")
        b.op("Concat", (rows, b.constant([of.dims.d_model])), ROW_VALUES, axis=0)


def _norms(layer: int) -> tuple[str, str, str]:
    """Names of a layer's norms in their order."""
    stem = f"decoder.layers.{layer}"
    return (
        f"{stem}.self_attn_layer_norm",
        f"{stem}.encoder_attn_layer_norm",
        f"{stem}.final_layer_norm",
    )


def _declare_inputs(b: GraphBuilder, of: _Decoder) -> None:
    """Inputs, and the longer caches, which come out as they are made."""
    dims = of.dims
    b.input("tokens", INT64, ("batch", "n_tokens"))
    b.input("text_positions", INT64, ("batch", "n_tokens"))
    b.input("positions", INT64, ("K",))
    b.input("self_bias", FLOAT, ("batch", 1, "n_tokens", "n_columns or more"))
    b.input("last_column", INT32, ("batch",))
    b.input("n_columns", INT32, (1,))
    heads, width = dims.n_decoder_heads, dims.cache_head_size
    for i in range(dims.n_decoder_layers):
        for part in ("key", "value"):
            b.input(f"past_{part}_{i}", FLOAT, ("batch", heads, "n_places", width))
            b.output(f"present_{part}_{i}", FLOAT, ("batch", heads, "n_places", width))
    _declare_audio(b, of)


def _cut_self_bias(b: GraphBuilder) -> None:
    """The bias of the columns there are.

    So the host may give one for all columns there can be, once for many steps: the cut takes less
    than telling the runtime of another array.
    """
    first, axis = (b.constant(np.array([n], np.int32)) for n in (0, 3))
    b.op("Slice", ("self_bias", first, "n_columns", axis), SELF_BIAS)


def _declare_audio(b: GraphBuilder, of: _Decoder) -> None:
    """Keys and values of the audio, and which of them each row may look at."""
    dims = of.dims
    for i in range(dims.n_decoder_layers):
        for part in ("key", "value"):
            name = f"cross_{part}_{i}"
            b.input(name, *audio_form(name, dims, in_codes=of.in_codes))
            if of.in_codes:
                sizes = ("windows", 1, dims.n_decoder_heads, dims.head_size)
                b.input(f"cross_{part}_scale_{i}", FLOAT, sizes)
    n_queries = 1 if of.in_codes else "n_tokens"
    b.input("cross_bias", FLOAT, ("windows", 1, n_queries, "n_positions + 1"))


def _self_attention(b: GraphBuilder, normed: str, i: int, of: _Decoder) -> str:
    """`out(attention(normed))` over the cache and this step's tokens."""
    name = f"decoder.layers.{i}.self_attn"
    heads, width = of.dims.n_decoder_heads, of.dims.cache_head_size
    weights = fused_qkv(of.checkpoint, name, of.dims.head_size)
    wide = with_wider_outputs(weights, 3 * heads, width)
    qkv = linear(b, normed, f"{name}.qkv", wide, of.precision.self_attention)
    mixed = attend_to_cache(b, f"{name}.mixed", qkv, i, heads)
    out_proj = checkpoint_linear(of.checkpoint, f"{name}.out_proj")
    back = with_wider_inputs(out_proj, heads, width)
    return linear(b, mixed, f"{name}.out", back, of.precision.others)


def _cross_attention(b: GraphBuilder, normed: str, i: int, of: _Decoder) -> str:
    """`out(attention(normed))` over keys and values of the audio."""
    name, heads = f"decoder.layers.{i}.encoder_attn", of.dims.n_decoder_heads
    weights = query(of.checkpoint, name, of.dims.head_size)
    if of.in_codes:
        asked = linear(b, normed, f"{name}.q", weights, of.precision.others)
        apart = b.op("Reshape", (asked, WINDOW_QUERIES), f"{name}.q.by_window")
        scaled = b.op("Mul", (apart, f"cross_key_scale_{i}"), f"query_{i}")
        values = attend_to_codes(b, f"{name}.values", scaled, i)
        mixed = b.op("Reshape", (values, ROW_VALUES), f"{name}.mixed")
    else:
        asked = linear(b, normed, f"query_{i}", weights, of.precision.others)
        qkv = (asked, f"cross_key_{i}", f"cross_value_{i}")
        mixed = attend(b, f"{name}.mixed", qkv, heads, bias="cross_bias")
    out_proj = checkpoint_linear(of.checkpoint, f"{name}.out_proj")
    return linear(b, mixed, f"{name}.out", out_proj, of.precision.others)
