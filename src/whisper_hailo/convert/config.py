"""What a checkpoint's `config.json` says, and what the files beside it are called.

Apart from the arrays, so that a look at a directory does not load what reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whisper_hailo.core.dimensions import Dimensions
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import read_json_object

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")


@dataclass(frozen=True, slots=True)
class Config:
    """What of `config.json` shapes the graphs.

    Attributes:
        dims: sizes of both halves.
        encoder_ffn: inner width of the encoder's MLPs.
        decoder_ffn: inner width of the decoder's MLPs.
    """

    dims: Dimensions
    encoder_ffn: int
    decoder_ffn: int


def read_config(directory: Path) -> Config:
    """Read and check `config.json`.

    Raises:
        ModelError: no checkpoint, another architecture, or a variant that is not supported.
    """
    if not directory.is_dir():
        raise ModelError(
            f"{directory} is no directory; give a Hugging Face checkpoint directory or a hub id"
        )
    path = directory / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{directory} is no checkpoint: it has no config.json; "
            "give a directory saved by Transformers' save_pretrained"
        )
    raw = read_json_object(path)
    if raw.get("model_type") != "whisper":
        raise ModelError(
            f"{path} is of model type {raw.get('model_type')!r}, expected 'whisper'; "
            "only Whisper checkpoints can be converted"
        )
    activation = raw.get("activation_function", "gelu")
    if activation != "gelu":
        raise ModelError(
            f"{path} asks for activation function {activation!r}, only 'gelu' is supported"
        )
    if raw.get("scale_embedding"):
        raise ModelError(f"{path} asks for scale_embedding, which is not supported")
    return _dimensions(raw, path)


def _dimensions(raw: dict[str, Any], path: Path) -> Config:
    def size(key: str) -> int:
        value = raw.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{path} has {key} = {value!r}, expected a positive whole number")
        return value

    dims = Dimensions(
        n_mels=size("num_mel_bins"),
        n_audio_ctx=size("max_source_positions"),
        d_model=size("d_model"),
        n_encoder_layers=size("encoder_layers"),
        n_encoder_heads=size("encoder_attention_heads"),
        n_decoder_layers=size("decoder_layers"),
        n_decoder_heads=size("decoder_attention_heads"),
        n_text_ctx=size("max_target_positions"),
        n_vocab=size("vocab_size"),
    )
    return Config(dims, size("encoder_ffn_dim"), size("decoder_ffn_dim"))
