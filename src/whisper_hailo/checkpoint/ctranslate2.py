"""CTranslate2 Whisper directories as checkpoints: their arrays and settings by our names.

faster-whisper and others publish models in this format: `model.bin`, `config.json`, and mostly
`tokenizer.json`. Nothing is copied: an array is a range of `model.bin`. Queries, keys and values
are one product there, whose keys have a bias of zero.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.checkpoint.config import ENGLISH_N_VOCAB, INDEX_FILE, SINGLE_FILE, Config
from whisper_hailo.checkpoint.ctranslate2_file import (
    CheckpointArray,
    QuantizedArray,
    read_variables,
    slice_rows,
)
from whisper_hailo.core.errors import ModelError, shown
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object

MODEL_FILE: Final = "model.bin"
CONFIG_FILE: Final = "config.json"

_LAYER: Final = re.compile(r"(encoder|decoder)/layer_(\d{1,3})/(.+)/(weight|bias|gamma|beta)")
_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
    "ffn/layer_norm": ("final_layer_norm",),
}
"""CTranslate2's name of a layer's part, and the names of the modules that it joins."""

_ENDINGS: Final = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_OUTSIDE_LAYERS: Final = {
    "encoder/conv1/weight": "encoder.conv1.weight",
    "encoder/conv1/bias": "encoder.conv1.bias",
    "encoder/conv2/weight": "encoder.conv2.weight",
    "encoder/conv2/bias": "encoder.conv2.bias",
    "encoder/position_encodings/encodings": "encoder.embed_positions.weight",
    "encoder/layer_norm/gamma": "encoder.layer_norm.weight",
    "encoder/layer_norm/beta": "encoder.layer_norm.bias",
    "decoder/embeddings/weight": "decoder.embed_tokens.weight",
    "decoder/projection/weight": "proj_out.weight",
    "decoder/position_encodings/encodings": "decoder.embed_positions.weight",
    "decoder/layer_norm/gamma": "decoder.layer_norm.weight",
    "decoder/layer_norm/beta": "decoder.layer_norm.bias",
}
_ATTRIBUTES: Final = {"decoder/activation": 3, "decoder/pre_norm": 1, "decoder/scale_embeddings": 0}
"""What every Whisper has; 3 is GELU."""


@dataclass(frozen=True, slots=True)
class ConvertedCheckpoint:
    """Sizes and arrays of a CTranslate2 directory, by Hugging Face's names without `model.`."""

    config: Config
    arrays: dict[str, CheckpointArray]


def is_ctranslate2(directory: Path) -> bool:
    """Return whether a directory has its arrays in CTranslate2's format."""
    own = any(os.path.isfile(directory / name) for name in (SINGLE_FILE, INDEX_FILE))
    return os.path.isfile(directory / MODEL_FILE) and not own


def open_ctranslate2(directory: Path) -> ConvertedCheckpoint:
    """Find the arrays of a CTranslate2 directory and derive the sizes from them.

    Raises:
        ModelError: not a Whisper model, truncated, or an unsupported variant.
    """
    path = directory / MODEL_FILE
    variables = read_variables(path)
    for name, expected in _ATTRIBUTES.items():
        got = _attribute(variables, name, expected)
        if got != expected:
            raise ModelError(
                f"{shown(path)} has {name} = {got}, expected {expected}; this is a model of "
                "another architecture"
            )
    arrays = dict(_renamed(path, variables))
    if "proj_out.weight" in arrays and arrays["proj_out.weight"] == arrays.get(
        "decoder.embed_tokens.weight"
    ):
        del arrays["proj_out.weight"]  # an alias: tied
    return ConvertedCheckpoint(_config(path, variables, arrays), arrays)


def read_settings(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the token entries of `config.json` and `generation_config.json`.

    CTranslate2's own `config.json` has them under other names, some of them only in its tokenizer.
    """
    path = directory / CONFIG_FILE
    if not path.is_file():
        raise ModelError(
            f"{shown(directory)} has {MODEL_FILE} and no {CONFIG_FILE}; fetch the whole directory"
        )
    try:
        stored = decode(_Stored, read_json_object(path))
    except MismatchError as error:
        raise ModelError(f"{shown(path)}: {error}; fetch the file again") from error
    n_vocab = open_ctranslate2(directory).config.dims.n_vocab
    # config.json of English models may list languages all the same.
    is_multilingual = n_vocab != ENGLISH_N_VOCAB and (
        n_vocab > ENGLISH_N_VOCAB or bool(stored.lang_ids)
    )
    generation = {
        "suppress_tokens": stored.suppress_ids,
        "begin_suppress_tokens": stored.suppress_ids_begin,
        "alignment_heads": stored.alignment_heads,
        "is_multilingual": is_multilingual,
    }
    return {"vocab_size": n_vocab}, {
        key: [*value] if isinstance(value, tuple) else value
        for key, value in generation.items()
        if value is not None
    }


@dataclass(frozen=True, slots=True)
class _Stored:
    """The used entries of CTranslate2's `config.json`."""

    suppress_ids: tuple[int, ...] | None = None
    suppress_ids_begin: tuple[int, ...] | None = None
    lang_ids: tuple[int, ...] | None = None
    alignment_heads: tuple[list[int], ...] | None = None


def _renamed(
    path: Path, variables: dict[str, CheckpointArray]
) -> Iterator[tuple[str, CheckpointArray]]:
    """Yield the arrays by Hugging Face's names."""
    for name, array in variables.items():
        if not array.shape:
            continue  # an attribute
        if (other := _OUTSIDE_LAYERS.get(name)) is not None:
            yield other, array
            continue
        match = _LAYER.fullmatch(name)
        modules = _MODULES.get(match[3], ()) if match else ()
        if not match or not modules:
            raise ModelError(
                f"{shown(path)}: array {name} has no place in a Whisper; this is a model of "
                "another architecture, or one quantised in another way"
            )
        n_rows, rest = divmod(array.shape[0], len(modules))
        if rest:
            raise ModelError(
                f"{shown(path)}: array {name} has {array.shape[0]} rows, expected a multiple of "
                f"{len(modules)}; fetch the file again"
            )
        for index, module in enumerate(modules):
            part = slice_rows(array, index * n_rows, (index + 1) * n_rows)
            if module.endswith("k_proj") and match[4] == "bias":
                _expect_zeros(path, name, part)
                continue
            yield f"{match[1]}.layers.{int(match[2])}.{module}.{_ENDINGS[match[4]]}", part


def _expect_zeros(path: Path, name: str, bias: CheckpointArray) -> None:
    """Refuse keys with a bias, which Whisper does not have."""
    if len(bias.shape) != 1 or bias.read().any():
        raise ModelError(
            f"{shown(path)}: the keys of {name} have a bias, expected none; this is a model of "
            "another architecture"
        )


def _config(
    path: Path, variables: dict[str, CheckpointArray], arrays: dict[str, CheckpointArray]
) -> Config:
    """Derive the sizes from shapes."""

    def size(name: str, axis: int) -> int:
        shape = arrays[name].shape if name in arrays else ()
        if len(shape) <= axis:
            raise ModelError(
                f"array {name} has shape {shape}, expected {axis + 1} axes or more; fetch the "
                "file again"
            )
        return shape[axis]

    def n_layers(part: str) -> int:
        return len({key.split(".")[2] for key in arrays if key.startswith(f"{part}.layers.")})

    try:
        dims = Dimensions(
            n_mels=size("encoder.conv1.weight", 1),
            n_audio_ctx=size("encoder.embed_positions.weight", 0),
            d_model=size("encoder.conv1.weight", 0),
            n_encoder_layers=n_layers("encoder"),
            n_encoder_heads=_attribute(variables, "encoder/num_heads"),
            n_decoder_layers=n_layers("decoder"),
            n_decoder_heads=_attribute(variables, "decoder/num_heads"),
            n_text_ctx=size("decoder.embed_positions.weight", 0),
            n_vocab=size("decoder.embed_tokens.weight", 0),
        )
        ffn = [size(f"{part}.layers.0.fc1.weight", 0) for part in ("encoder", "decoder")]
        return Config(dims, *ffn)
    except ModelError as error:
        raise ModelError(f"{shown(path)}: {error}") from error


def _attribute(variables: dict[str, CheckpointArray], name: str, default: int | None = None) -> int:
    """Return a whole number that is stored as a variable without axes."""
    array = variables.get(name)
    if array is None and default is not None:
        return default
    if array is None or array.shape or isinstance(array, QuantizedArray):
        raise ModelError(f"{name} is missing or not one number; fetch the file again")
    return int(array.read())
