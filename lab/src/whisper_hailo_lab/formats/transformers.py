"""Checkpoints in Transformers' layout, written from those in other formats without torch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from safetensors.numpy import save_file

from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.text.tokenizer import TOKENIZER_FILE

MAX_INITIAL_TIMESTAMP: Final = 50
"""As in OpenAI's checkpoints: a text begins in the first second of its window."""


def write_transformers(checkpoint: Path, out: Path) -> None:
    """Write weights in float32, their configuration, and the tokenizer.

    Args:
        checkpoint: directory in any format that `--model` takes, with its `tokenizer.json`.
        out: folder to write into; it must not exist.
    """
    opened = Checkpoint(checkpoint)
    config = opened.config
    names = expected_shapes(config.dims, config.encoder_ffn, config.decoder_ffn)
    arrays = {f"model.{name}": opened.read(name) for name in names}
    if not opened.tied:
        arrays[opened.projection_name] = opened.read(opened.projection_name)
    out.mkdir(parents=True)
    save_file(arrays, out / "model.safetensors", {"format": "pt"})
    shutil.copyfile(checkpoint / TOKENIZER_FILE, out / TOKENIZER_FILE)
    _write_json(out / "config.json", make_config(opened))
    _write_json(out / "generation_config.json", make_generation_config(opened))
    _write_json(out / "preprocessor_config.json", {"feature_size": config.dims.n_mels})


def make_config(opened: Checkpoint) -> dict[str, Any]:
    """Return `config.json`."""
    dims = opened.config.dims
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "vocab_size": dims.n_vocab,
        "num_mel_bins": dims.n_mels,
        "d_model": dims.d_model,
        "encoder_layers": dims.n_encoder_layers,
        "encoder_attention_heads": dims.n_encoder_heads,
        "encoder_ffn_dim": opened.config.encoder_ffn,
        "decoder_layers": dims.n_decoder_layers,
        "decoder_attention_heads": dims.n_decoder_heads,
        "decoder_ffn_dim": opened.config.decoder_ffn,
        "max_source_positions": dims.n_audio_ctx,
        "max_target_positions": dims.n_text_ctx,
        "tie_word_embeddings": opened.tied,
    }


def make_generation_config(opened: Checkpoint) -> dict[str, Any]:
    """Return `generation_config.json`, with the control tokens of the tokenizer."""
    directory = opened.directory
    tokens = read_special_tokens(directory, directory / TOKENIZER_FILE)
    generation = opened.generation_config() | {
        "decoder_start_token_id": tokens.sot,
        "bos_token_id": tokens.eot,
        "eos_token_id": tokens.eot,
        "pad_token_id": tokens.eot,
        "prev_sot_token_id": tokens.sot_prev,
        "no_timestamps_token_id": tokens.no_timestamps,
        "max_initial_timestamp_index": MAX_INITIAL_TIMESTAMP,
        "max_length": opened.config.dims.n_text_ctx,
        "return_timestamps": False,
    }
    if tokens.languages:
        generation["lang_to_id"] = {
            f"<|{code}|>": token for code, token in tokens.languages.items()
        }
        generation["task_to_id"] = {
            "transcribe": tokens.transcribe,
            "translate": tokens.translate,
        }
    return generation


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
