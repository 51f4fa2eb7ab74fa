"""Models without weights of their own: a checkpoint's description beside graphs of another program.

A directory that Optimum exported is one; so is a checkpoint's directory without its arrays, for
runs whose encoder and decoder are both given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whisper_hailo.checkpoint.config import (
    INDEX_FILE,
    PICKLES,
    SINGLE_FILE,
    alignment_heads,
    read_config,
)
from whisper_hailo.checkpoint.ctranslate2 import is_ctranslate2
from whisper_hailo.checkpoint.hub import is_model_directory, parse_name
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.convert.model_cache import expect_form, resolve_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.spec import ModelSource, ModelSpec
from whisper_hailo.core.strict_json import read_json_object
from whisper_hailo.text.tokenizer import TOKENIZER_FILE

CONFIG_FILE: Final = "config.json"
GENERATION_FILE: Final = "generation_config.json"


def find_model(
    name: str,
    options: ConvertOptions | None = None,
    *,
    revision: str | None = None,
    tokenizer: Path | None = None,
) -> tuple[Path, ModelSpec]:
    """The directory that a `--model` argument names, and what it holds.

    Args:
        name: see `resolve_model`; also a directory with a description and no weights, which is
            used as it is.
        options: how to convert a checkpoint.
        revision: hub commit, tag or branch.
        tokenizer: a `tokenizer.json` that names the control tokens of a described model.
    """
    path = parse_name(name).path
    if path is not None and is_described(path):
        spec = describe(path, tokenizer)
        expect_form(path, spec, options or ConvertOptions())
        return path, spec
    directory = resolve_model(name, options, revision=revision)
    return directory, ModelSpec.load(directory)


def is_described(path: Path) -> bool:
    """Whether a directory describes a checkpoint and does not hold its arrays."""
    arrays = (SINGLE_FILE, INDEX_FILE, *PICKLES)
    has_arrays = any((path / name).exists() for name in arrays)
    has_weights = has_arrays or is_ctranslate2(path) or is_model_directory(path)
    return (path / CONFIG_FILE).is_file() and not has_weights


def describe(path: Path, tokenizer: Path | None = None) -> ModelSpec:
    """The model of a description.

    Args:
        path: directory with `config.json` and, mostly, `generation_config.json`.
        tokenizer: a `tokenizer.json`; `None` is the directory's own, if it has one.
    """
    dims = read_config(path).dims
    generation = path / GENERATION_FILE
    own = path / TOKENIZER_FILE
    tokenizer = tokenizer or (own if own.is_file() else None)
    return ModelSpec(
        name=path.resolve().name,
        dims=dims,
        tokens=read_special_tokens(path, tokenizer),
        quantization="none",
        encoder_quantization="none",
        alignment_heads=alignment_heads(
            read_json_object(generation) if generation.is_file() else {}, dims
        ),
        source=ModelSource(name=path.resolve().name),
    )
