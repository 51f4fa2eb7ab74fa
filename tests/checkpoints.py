"""Small Whisper checkpoints with random weights, written without torch."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes  # noqa: F401 - registers bfloat16 with NumPy
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from whisper_hailo.checkpoint.checkpoint import expected_shapes
from whisper_hailo.core.spec import Dimensions

TOY = Dimensions(
    n_mels=80,
    n_audio_ctx=150,
    d_model=64,
    n_encoder_layers=1,
    n_encoder_heads=1,
    n_decoder_layers=2,
    n_decoder_heads=2,
    n_text_ctx=64,
    n_vocab=200,
)
"""Enough layers and heads to go wrong, small enough for milliseconds."""

TOY_FFN = 128

Arrays = dict[str, NDArray[np.float32]]


def config_of(dims: Dimensions, ffn: int = TOY_FFN) -> dict[str, object]:
    """`config.json` of a checkpoint, as Transformers writes it."""
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "activation_function": "gelu",
        "scale_embedding": False,
        "num_mel_bins": dims.n_mels,
        "max_source_positions": dims.n_audio_ctx,
        "max_target_positions": dims.n_text_ctx,
        "d_model": dims.d_model,
        "encoder_layers": dims.n_encoder_layers,
        "encoder_attention_heads": dims.n_encoder_heads,
        "encoder_ffn_dim": ffn,
        "decoder_layers": dims.n_decoder_layers,
        "decoder_attention_heads": dims.n_decoder_heads,
        "decoder_ffn_dim": ffn,
        "vocab_size": dims.n_vocab,
        "decoder_start_token_id": 11,
        "eos_token_id": 10,
        "bos_token_id": 10,
        "pad_token_id": 10,
    }


def random_arrays(dims: Dimensions = TOY, ffn: int = TOY_FFN, seed: int = 0) -> Arrays:
    """Weights that keep activations of order one, biases and norms that matter.

    The legacy generator's stream is frozen, so goldens made from these weights stay valid.
    """
    rng = np.random.RandomState(seed)
    arrays: Arrays = {}
    for name, shape in expected_shapes(dims, ffn, ffn).items():
        noise = rng.standard_normal(shape).astype(np.float32)
        if name.endswith("layer_norm.weight"):
            arrays[name] = 1 + 0.2 * noise
        elif len(shape) == 1:
            arrays[name] = 0.1 * noise
        else:
            arrays[name] = noise / np.float32(np.prod(shape[1:])) ** 0.5
    return arrays


def write_checkpoint(
    directory: Path,
    arrays: Arrays | None = None,
    *,
    config: dict[str, object] | None = None,
    dtype: str = "float32",
    prefix: str = "model.",
    n_shards: int = 1,
) -> Path:
    """Write a checkpoint directory; `arrays` default to `random_arrays()`."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config_of(TOY) if config is None else config)
    (directory / "config.json").write_text(text)
    stored = {
        (name if name == "proj_out.weight" else prefix + name): array.astype(dtype)
        for name, array in (random_arrays() if arrays is None else arrays).items()
    }
    if n_shards == 1:
        save_file(stored, directory / "model.safetensors")
        return directory
    weight_map = {}
    for shard in range(n_shards):
        file = f"model-{shard + 1:05}-of-{n_shards:05}.safetensors"
        part = {name: stored[name] for name in sorted(stored)[shard::n_shards]}
        save_file(part, directory / file)
        weight_map |= dict.fromkeys(part, file)
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (directory / "model.safetensors.index.json").write_text(index)
    return directory
