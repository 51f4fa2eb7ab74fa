"""The cached decoder graph: tokens and cached keys and values -> logits and a longer cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.attention import (
    HALF_BIAS,
    SELF_BIAS,
    attend,
    attend_to_cache,
    attend_to_codes,
    attend_to_half,
)
from whisper_hailo.convert.graphs.builder import (
    AUDIO_TYPES,
    FLOAT,
    HALF,
    INT32,
    INT64,
    Graph,
    GraphBuilder,
)
from whisper_hailo.convert.graphs.decoder_ends import embed_tokens, project_to_vocabulary
from whisper_hailo.convert.graphs.layers import add_and_norm, layer_norm, mlp_change
from whisper_hailo.convert.graphs.precision import Precision
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    checkpoint_linear,
    fused_qkv,
    linear,
    query,
    with_wider_inputs,
    with_wider_outputs,
)
from whisper_hailo.core.dimensions import AudioForm, Dimensions

HeadPairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Decoder:
    """What every layer of the decoder shares."""

    checkpoint: Checkpoint
    dims: Dimensions
    precision: Precision
    half: bool

    @property
    def audio(self) -> AudioForm:
        """How keys and values of the audio come."""
        quantized = self.precision.vocabulary is not Arithmetic.FLOAT
        return self.dims.audio_form(quantized=quantized, half=self.half)


def decoder_graph(
    checkpoint: Checkpoint,
    alignment: HeadPairs,
    arithmetic: Arithmetic = Arithmetic.FLOAT,
    *,
    half: bool = False,
) -> Graph:
    """Author the decoder; `docs/conversion.md` lists its inputs and outputs.

    Masks and places are made by the host, which knows them without asking: in the graph they were
    a fifth of the nodes of a step.

    Args:
        checkpoint: where the arrays come from.
        alignment: `(layer, head)` pairs whose cross-attention weights will be wanted: the queries
            of their layers are outputs.
        arithmetic: `FLOAT` or blocks; `Precision` says which products keep more bits.
        half: keys and values of the audio are float16, unless the arithmetic is float.
    """
    precision = Precision.of(arithmetic, checkpoint.config)
    of = _Decoder(checkpoint, checkpoint.config.dims, precision, half)
    b = GraphBuilder("whisper_decoder")
    _declare_inputs(b, of)
    _cut_self_bias(b)
    if of.audio is AudioForm.HALF:
        b.op("Cast", ("cross_bias",), HALF_BIAS, to=HALF)  # once for all layers
    x = embed_tokens(b, checkpoint, "tokens", "text_positions", precision.embedding)
    normed = layer_norm(b, x, f"{_norms(0)[0]}.out", checkpoint, _norms(0)[0])
    for i in range(of.dims.n_decoder_layers):
        _, before_cross, before_mlp = _norms(i)
        change = _self_attention(b, normed, i, of)
        x, normed = add_and_norm(b, x, change, checkpoint, before_cross)
        change = _cross_attention(b, normed, i, of)
        x, normed = add_and_norm(b, x, change, checkpoint, before_mlp)
        change = mlp_change(b, normed, f"decoder.layers.{i}", checkpoint, precision.others)
        is_last = i + 1 == of.dims.n_decoder_layers
        following = "decoder.layer_norm" if is_last else _norms(i + 1)[0]
        x, normed = add_and_norm(b, x, change, checkpoint, following)
    hidden = b.op("Gather", (normed, "positions"), "decoder.hidden", axis=1)
    project_to_vocabulary(b, checkpoint, hidden, precision)
    for i in sorted({layer for layer, _ in alignment}):
        b.output(f"query_{i}", FLOAT, ("batch", "n_tokens", of.dims.d_model))
    return b.build()


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
    shape = ("batch", dims.n_decoder_heads, "n_positions + 1", dims.head_size)
    dtype = AUDIO_TYPES[of.audio]
    for i in range(dims.n_decoder_layers):
        for part in ("key", "value"):
            b.input(f"cross_{part}_{i}", dtype, shape)
            if of.audio is AudioForm.CODES:
                b.input(f"cross_{part}_scale_{i}", FLOAT, ("batch", 1, dims.d_model))
            if of.audio is not AudioForm.FLOAT:
                b.output(f"same_{part}_{i}", dtype, shape)
    b.input("cross_bias", FLOAT, ("batch", 1, "n_tokens", "n_positions + 1"))
    if of.audio is AudioForm.FLOAT:
        return
    b.input("last_position", INT32, ("batch",))
    b.input("n_positions", INT32, (1,))
    asked = HALF if of.audio is AudioForm.HALF else FLOAT
    b.input("nothing_new", asked, ("batch", 0, dims.d_model))


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
    """`out(attention(normed))` over keys and values of the audio, in the form of `of.audio`."""
    name, heads = f"decoder.layers.{i}.encoder_attn", of.dims.n_decoder_heads
    weights = query(of.checkpoint, name, of.dims.head_size)
    if of.audio is AudioForm.CODES:
        asked = linear(b, normed, f"{name}.q", weights, of.precision.others)
        scaled = b.op("Mul", (asked, f"cross_key_scale_{i}"), f"query_{i}")
        mixed = attend_to_codes(b, f"{name}.mixed", scaled, i, heads)
    else:
        asked = linear(b, normed, f"query_{i}", weights, of.precision.others)
        if of.audio is AudioForm.HALF:
            mixed = attend_to_half(b, f"{name}.mixed", asked, i, heads)
        else:
            qkv = (asked, f"cross_key_{i}", f"cross_value_{i}")
            mixed = attend(b, f"{name}.mixed", qkv, heads, bias="cross_bias")
    out_proj = checkpoint_linear(of.checkpoint, f"{name}.out_proj")
    return linear(b, mixed, f"{name}.out", out_proj, of.precision.others)
