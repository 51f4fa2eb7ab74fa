"""The arrays that make a Whisper: Hugging Face's names and the shapes a config gives them."""

from __future__ import annotations

from typing import TypeAlias

from whisper_hailo.core.dimensions import Dimensions

Shapes: TypeAlias = dict[str, tuple[int, ...]]

CONV_WIDTH = 3


def expected_shapes(dims: Dimensions, encoder_ffn: int, decoder_ffn: int) -> Shapes:
    """Name (without `model.`) to shape of every array that the graphs are made of."""
    d = dims.d_model
    shapes: Shapes = {
        "encoder.conv1.weight": (d, dims.n_mels, CONV_WIDTH),
        "encoder.conv1.bias": (d,),
        "encoder.conv2.weight": (d, d, CONV_WIDTH),
        "encoder.conv2.bias": (d,),
        "encoder.embed_positions.weight": (dims.n_audio_ctx, d),
        "decoder.embed_tokens.weight": (dims.n_vocab, d),
        "decoder.embed_positions.weight": (dims.n_text_ctx, d),
    }
    for i in range(dims.n_encoder_layers):
        layer = f"encoder.layers.{i}"
        shapes |= _attention(f"{layer}.self_attn", d) | _mlp(layer, d, encoder_ffn)
    for i in range(dims.n_decoder_layers):
        layer = f"decoder.layers.{i}"
        shapes |= _attention(f"{layer}.self_attn", d) | _attention(f"{layer}.encoder_attn", d)
        shapes |= _mlp(layer, d, decoder_ffn)
    return shapes | _norm("encoder.layer_norm", d) | _norm("decoder.layer_norm", d)


def _attention(name: str, d: int) -> Shapes:
    """One attention block with the norm before it; keys have no bias."""
    shapes: Shapes = {f"{name}.{part}_proj.weight": (d, d) for part in ("q", "k", "v", "out")}
    shapes |= {f"{name}.{part}_proj.bias": (d,) for part in ("q", "v", "out")}
    return shapes | _norm(f"{name}_layer_norm", d)


def _mlp(layer: str, d: int, inner: int) -> Shapes:
    """The two products after attention with the norm before them."""
    return {
        f"{layer}.fc1.weight": (inner, d),
        f"{layer}.fc1.bias": (inner,),
        f"{layer}.fc2.weight": (d, inner),
        f"{layer}.fc2.bias": (d,),
    } | _norm(f"{layer}.final_layer_norm", d)


def _norm(name: str, d: int) -> Shapes:
    return {f"{name}.weight": (d,), f"{name}.bias": (d,)}
