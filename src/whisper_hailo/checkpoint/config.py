"""A checkpoint's sizes, from its `config.json`, and its alignment heads."""

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
ENGLISH_N_VOCAB = 51_864
"""Vocabulary size of `.en` checkpoints; used only where no config tells if one is multilingual."""
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")

ADAPTER: Final = "adapter_config.json"
MERGE: Final = (
    "load it with its model in peft, then merge_and_unload() and save_pretrained(DIR), and give DIR"
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
    if not directory.is_dir():
        raise ModelError(
            f"{display_path(directory)} is no directory; give a Hugging Face checkpoint directory "
            "or a hub id"
        )
    path = directory / "config.json"
    if not path.is_file() and (directory / ADAPTER).is_file():
        raise ModelError(f"{display_path(directory)} is an adapter (LoRA) without a model; {MERGE}")
    if not path.is_file():
        raise ModelError(
            f"{display_path(directory)} is no checkpoint: it has no config.json; "
            "give a directory saved by Transformers' save_pretrained"
        )
    raw = read_json_object(path)
    if raw.get("model_type") != "whisper":
        raise ModelError(
            f"{display_path(path)} is of model type {str(raw.get('model_type'))[:60]!r}, expected "
            "'whisper'; only Whisper checkpoints can be converted"
        )
    try:
        stored = decode(_Stored, raw)
    except MismatchError as error:
        raise ModelError(f"{display_path(path)}: {error}; fetch the file again") from error
    if stored.activation_function != "gelu":
        raise ModelError(
            f"{display_path(path)} asks for activation function "
            f"{stored.activation_function[:60]!r}, only 'gelu' is supported"
        )
    if stored.scale_embedding:
        raise ModelError(f"{display_path(path)} asks for scale_embedding, which is not supported")
    try:
        return stored.config()
    except ModelError as error:
        raise ModelError(f"{display_path(path)}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Stored:
    """The used entries of `config.json`, as Transformers names them."""

    num_mel_bins: int
    max_source_positions: int
    d_model: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_layers: int
    decoder_attention_heads: int
    decoder_ffn_dim: int
    max_target_positions: int
    vocab_size: int
    activation_function: str = "gelu"
    scale_embedding: bool | None = None

    def config(self) -> Config:
        dims = Dimensions(
            n_mels=self.num_mel_bins,
            n_audio_ctx=self.max_source_positions,
            d_model=self.d_model,
            n_encoder_layers=self.encoder_layers,
            n_encoder_heads=self.encoder_attention_heads,
            n_decoder_layers=self.decoder_layers,
            n_decoder_heads=self.decoder_attention_heads,
            n_text_ctx=self.max_target_positions,
            n_vocab=self.vocab_size,
        )
        return Config(dims, self.encoder_ffn_dim, self.decoder_ffn_dim)


logger = logging.getLogger(__name__)

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Listed:
    """The used entries of `generation_config.json`."""

    alignment_heads: Pairs | None = None


def alignment_heads(generation: dict[str, Any], dims: Dimensions) -> Pairs:
    """Return sorted `(layer, head)` pairs of the generation config, if they exist.

    Otherwise all heads of the upper half of the decoder, as in OpenAI's Whisper. Distilled
    checkpoints often carry the list of their teacher, whose layers they do not have.
    """
    try:
        listed = decode(_Listed, generation).alignment_heads
    except MismatchError as error:
        raise ModelError(f"generation_config.json: {error}; fetch the file again") from error
    if listed:
        if all(
            0 <= layer < dims.n_decoder_layers and 0 <= head < dims.n_decoder_heads
            for layer, head in listed
        ):
            return tuple(sorted(set(listed)))
        logger.warning(
            "generation_config.json lists alignment heads that this decoder of %d layers does not "
            "have; using all heads of its upper half",
            dims.n_decoder_layers,
        )
    layers = range(dims.n_decoder_layers // 2, dims.n_decoder_layers)
    return tuple((layer, head) for layer in layers for head in range(dims.n_decoder_heads))
