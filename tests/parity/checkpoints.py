"""Whisper checkpoints with seeded random weights, saved by Transformers itself.

Fresh Transformers weights are so small that all logits are nearly equal. These are scaled so that
activations stay of order one through the layers, with biases and norms that matter.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

SMALL = {
    "vocab_size": 320,
    "num_mel_bins": 80,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
    "bos_token_id": 300,
    "eos_token_id": 300,
    "pad_token_id": 300,
    "decoder_start_token_id": 301,
    "begin_suppress_tokens": None,
}
"""Reduced width and vocabulary: quick, for everything that does not depend on size."""

TINY = {
    **SMALL,
    "vocab_size": 51865,
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
}
"""Whisper tiny's true dimensions."""

BASE = {
    **TINY,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
}
"""Whisper base's true dimensions."""

SMALL_MODEL = {
    **TINY,
    "d_model": 768,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
}
"""Whisper small's true dimensions."""

LARGE_V3_TURBO = {
    **SMALL_MODEL,
    "vocab_size": 51866,
    "num_mel_bins": 128,
    "d_model": 1280,
    "encoder_layers": 32,
    "decoder_layers": 4,
    "encoder_attention_heads": 20,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
}
"""Large-v3-turbo's true dimensions: its encoder alone passes 2 GB in float32."""

ENGLISH = {
    **TINY,
    "vocab_size": 51864,
    "d_model": 64,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
ENGLISH |= {"encoder_attention_heads": 1, "decoder_attention_heads": 1}
"""An English-only vocabulary at reduced width."""

TURBO = {**ENGLISH, "vocab_size": 51866, "num_mel_bins": 128, "encoder_layers": 5}
"""Turbo's shape at reduced width: 128 mel bins, many encoder layers, few decoder layers."""


def save_random(
    directory: Path,
    config: dict[str, object],
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    **options: object,
) -> WhisperForConditionalGeneration:
    """Save a random checkpoint and return the model, which computes in float32."""
    whisper_config = WhisperConfig(**config, attn_implementation="eager")
    model = WhisperForConditionalGeneration(whisper_config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("encoder.embed_positions.weight"):
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if "layer_norm.weight" in name:
                parameter.copy_(1 + 0.2 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.1 * noise)
            else:
                parameter.copy_(noise / parameter[0].numel() ** 0.5)
    model.to(dtype).save_pretrained(directory, **options)
    return model.float()
