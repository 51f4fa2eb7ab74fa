"""Checkpoints in one file: OpenAI's `.pt` and whisper.cpp's `ggml-*.bin`.

Both name arrays as OpenAI's program does; what they do not say is known (`openai_layout`). A file
of whisper.cpp has its vocabulary; for OpenAI's it is that of the checkpoints of the hub.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.ggml_file import is_ggml_file, read_ggml_file
from whisper_hailo.checkpoint.openai_layout import (
    derive_config,
    is_multilingual,
    read_settings,
    rename_arrays,
)
from whisper_hailo.checkpoint.openai_vocabulary import (
    ordinary_tokens,
    tokenizer_of_tokens,
)
from whisper_hailo.checkpoint.torch_file import (
    OLD_FORMAT_ADVICE,
    is_old_torch_file,
    is_torch_file,
    read_torch_file,
    select_tensors,
)
from whisper_hailo.checkpoint.weights import StoredArray
from whisper_hailo.core.errors import ModelError, display_path

_STATE = "model_state_dict"
_DIMS = "dims"


def is_single_file(path: Path) -> bool:
    """Return whether a checkpoint is a file, not a directory."""
    return os.path.isfile(path)


def open_single_file(path: Path) -> tuple[Config, dict[str, StoredArray]]:
    """Return sizes and arrays of a file, by Hugging Face's names without `model.`.

    Raises:
        ModelError: another format, a broken file, or not a Whisper model.
    """
    _refuse_other_formats(path)
    if is_ggml_file(path):
        file = read_ggml_file(path)
        arrays = rename_arrays(file.arrays)
        config = _derive_config(path, arrays)
        return replace(config, dims=file.dims), arrays
    saved = read_torch_file(path)
    state = saved.get(_STATE, saved) if isinstance(saved, dict) else None
    if not isinstance(state, dict):
        raise ModelError(
            f"{display_path(path)} holds no model_state_dict; give a model of OpenAI's program"
        )
    arrays = rename_arrays(select_tensors(state))
    config = _derive_config(path, arrays)
    return replace(config, dims=_with_heads(config, saved)), arrays


def _refuse_other_formats(path: Path) -> None:
    """Refuse files that are neither, and say what to give instead."""
    try:
        if is_ggml_file(path) or is_torch_file(path):
            return
        with path.open("rb") as file:
            beginning = file.read(16)
    except OSError as error:
        raise ModelError(
            f"{display_path(path)} cannot be read ({error.strerror or error})"
        ) from error
    advice = "give a checkpoint directory, a model of OpenAI's program (.pt) or of whisper.cpp"
    if beginning.startswith(b"GGUF"):
        advice = (
            "GGUF is not read; give the ggml-*.bin, or the checkpoint it was made from"
        )
    elif path.suffix == ".safetensors":
        advice = "give its directory, which has config.json, too"
    elif is_old_torch_file(path):
        advice = OLD_FORMAT_ADVICE
    raise ModelError(
        f"{display_path(path)} is not a model file that can be read; {advice}"
    )


def _derive_config(path: Path, arrays: dict[str, StoredArray]) -> Config:
    try:
        return derive_config(arrays)
    except ModelError as error:
        raise ModelError(
            f"{display_path(path)} is not a Whisper model in OpenAI's layout: {error}; give the "
            "checkpoint "
            "that it was made from"
        ) from error


def _with_heads(config: Config, saved: Any) -> Any:  # noqa: ANN401 - whatever was saved
    """Return the sizes with the heads that OpenAI's program saved, if it did."""
    dims = saved.get(_DIMS)
    if not isinstance(dims, dict):
        return config.dims
    heads = {}
    for field, name in (
        ("n_encoder_heads", "n_audio_head"),
        ("n_decoder_heads", "n_text_head"),
    ):
        if isinstance(dims.get(name), int):
            heads[field] = dims[name]
    return replace(config.dims, **heads)


def read_file_settings(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries of `config.json` and `generation_config.json` of a file."""
    config, _ = open_single_file(path)
    return read_settings(config)


def make_tokenizer(path: Path) -> str:
    """Return the `tokenizer.json` of a file.

    Raises:
        HubError: it is not in the file, and that of the hub cannot be fetched.
    """
    if is_ggml_file(path):
        file = read_ggml_file(path)
        return tokenizer_of_tokens(file.tokens, file.dims.n_vocab)
    from whisper_hailo.checkpoint.hub import fetch_tokenizer

    config, _ = open_single_file(path)
    n_vocab = config.dims.n_vocab
    tokenizer = fetch_tokenizer(multilingual=is_multilingual(n_vocab))
    return tokenizer_of_tokens(ordinary_tokens(tokenizer), n_vocab)
