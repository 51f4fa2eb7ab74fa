"""A checkpoint's sizes from its `config.json`, and its alignment heads."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
LARGEST_FFN = 1 << 18
"""Inner width of an MLP, far beyond large-v3's 5120."""

ENGLISH_N_VOCAB = 51_864
"""Vocabulary size of `.en` checkpoints; used only where no config says if one is multilingual."""

TORCH_FILE = "pytorch_model.bin"
TORCH_INDEX_FILE = "pytorch_model.bin.index.json"
"""Counterparts of PyTorch's format, which Transformers wrote before safetensors."""

PICKLES = (TORCH_FILE, TORCH_INDEX_FILE, "model.pt", "model.ckpt")

_REQUIRED: Final = {
    "model_type": "whisper",
    "activation_function": "gelu",
    "scale_embedding": False,
}
"""What every Whisper has; the last two may be left out."""

_SIZES: Final = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "d_model": "d_model",
    "n_encoder_layers": "encoder_layers",
    "n_encoder_heads": "encoder_attention_heads",
    "n_decoder_layers": "decoder_layers",
    "n_decoder_heads": "decoder_attention_heads",
    "n_text_ctx": "max_target_positions",
    "n_vocab": "vocab_size",
}
"""Field of `Dimensions` to Transformers' name in `config.json`."""

_WIDTHS: Final = ("encoder_ffn_dim", "decoder_ffn_dim")

ADAPTER: Final = "adapter_config.json"
MERGE: Final = (
    "load it with its model in peft, then merge_and_unload() and save_pretrained(DIR), "
    "and give DIR"
)
"""Advice for adapters."""


@dataclass(frozen=True, slots=True)
class Config:
    """The part of `config.json` that shapes the graphs.

    Attributes:
        encoder_ffn: inner width of the encoder's MLPs.
        decoder_ffn: inner width of the decoder's MLPs.
    """

    dims: Dimensions
    encoder_ffn: int
    decoder_ffn: int

    def __post_init__(self) -> None:
        for width in (self.encoder_ffn, self.decoder_ffn):
            if not 1 <= width <= LARGEST_FFN:
                raise ModelError(
                    f"an MLP is {width} wide, expected a whole number from 1 to {LARGEST_FFN}"
                )


def read_config(directory: Path) -> Config:
    """Read and check `config.json`.

    Raises:
        ModelError: not a checkpoint, another architecture, or an unsupported variant.
    """
    path = directory / "config.json"
    directory_name = display_path(directory)
    if not directory.is_dir():
        raise ModelError(
            f"{directory_name} is not a directory; give a Hugging Face checkpoint directory or a "
            "hub "
            "id"
        )
    if not path.is_file():
        if (directory / ADAPTER).is_file():
            raise ModelError(
                f"{directory_name} is an adapter (LoRA) without a model; {MERGE}"
            )
        raise ModelError(
            f"{directory_name} is not a checkpoint: it has no config.json; give a directory saved "
            "by "
            "Transformers' save_pretrained"
        )
    raw = read_json_object(path)
    for name, expected in _REQUIRED.items():
        value = raw.get(name)
        may_be_absent = name != "model_type"
        if value is None and may_be_absent:
            continue
        if value != expected:
            raise ModelError(
                f"{display_path(path)} has {name} {str(value)[:60]!r}, expected {expected!r}; only "
                "Whisper checkpoints can be converted"
            )
    try:
        sizes = {
            field: decode(int, raw.get(name), name) for field, name in _SIZES.items()
        }
        encoder_ffn, decoder_ffn = (
            decode(int, raw.get(name), name) for name in _WIDTHS
        )
        return Config(Dimensions(**sizes), encoder_ffn, decoder_ffn)
    except MismatchError as error:
        raise ModelError(
            f"{display_path(path)}: {error}; fetch the file again"
        ) from error
    except ModelError as error:
        raise ModelError(f"{display_path(path)}: {error}") from error


logger = logging.getLogger(__name__)

Pairs = tuple[tuple[int, int], ...]


def alignment_heads(generation: dict[str, Any], dims: Dimensions) -> Pairs:
    """Return sorted `(layer, head)` pairs of the generation config, if this decoder has them all.

    Otherwise they are all heads of the upper half of the decoder, as in OpenAI's Whisper: distilled
    checkpoints often carry the list of their teacher, whose layers they do not have.
    """
    name = "alignment_heads"
    try:
        listed = decode(Pairs, generation.get(name) or [], name)
    except MismatchError as error:
        raise ModelError(
            f"generation_config.json: {error}; fetch the file again"
        ) from error
    layers = range(dims.n_decoder_layers)
    heads = range(dims.n_decoder_heads)
    if listed and all(layer in layers and head in heads for layer, head in listed):
        return tuple(sorted(set(listed)))
    if listed:
        logger.warning(
            "generation_config.json lists alignment heads that this decoder of %d layers does not "
            "have; using all heads of its upper half",
            dims.n_decoder_layers,
        )
    upper_layers = layers[len(layers) // 2 :]
    return tuple((layer, head) for layer in upper_layers for head in heads)
