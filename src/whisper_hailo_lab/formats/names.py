"""Array names: Hugging Face's to those of OpenAI's program, which whisper.cpp shares."""

from __future__ import annotations

import re
from typing import Final

_LAYER: Final = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)$")

_IN_LAYER: Final = {
    "self_attn.q_proj": "attn.query",
    "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.k_proj": "cross_attn.key",
    "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "final_layer_norm": "mlp_ln",
}

_OTHERS: Final = {
    "encoder.embed_positions.weight": "encoder.positional_embedding",
    "encoder.layer_norm.weight": "encoder.ln_post.weight",
    "encoder.layer_norm.bias": "encoder.ln_post.bias",
    "decoder.embed_positions.weight": "decoder.positional_embedding",
    "decoder.embed_tokens.weight": "decoder.token_embedding.weight",
    "decoder.layer_norm.weight": "decoder.ln.weight",
    "decoder.layer_norm.bias": "decoder.ln.bias",
}


def openai_name(name: str) -> str:
    """OpenAI's name of an array.

    Args:
        name: Hugging Face's, without the leading `model.`.
    """
    if name in _OTHERS:
        return _OTHERS[name]
    match = _LAYER.fullmatch(name)
    if match is None:  # the two convolutions have the same name in both
        return name
    half, index, part, kind = match.groups()
    return f"{half}.blocks.{index}.{_IN_LAYER[part]}.{kind}"
