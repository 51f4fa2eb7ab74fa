"""Directories with a checkpoint's description and graphs of another program are models, too."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from tests.unit.backends.test_optimum import GOLDENS
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.convert.find_model import describe, find_model, is_described
from whisper_hailo.core.errors import ModelError, OptionError, TokenizerError
from whisper_hailo.transcription.transcriber import Transcriber

MICRO = ASSETS / "micro"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """What Optimum leaves: graphs, and the checkpoint's small files."""
    folder = tmp_path / "export"
    with zipfile.ZipFile(GOLDENS / "optimum-onnx-0.1.0.zip") as packed:
        packed.extractall(folder)
    for file in (GOLDENS / "checkpoint").glob("*.json"):
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def description(tmp_path: Path) -> Path:
    """The bundled model without its arrays."""
    folder = tmp_path / "described"
    folder.mkdir()
    for file in MICRO.glob("*.json"):
        shutil.copy(file, folder)
    return folder


def test_an_export_is_used_as_it_is(export: Path) -> None:
    assert is_described(export)
    directory, spec = find_model(str(export))
    assert directory == export
    assert (spec.name, spec.dims.d_model, spec.dims.n_vocab) == ("export", 8, 90)
    assert (spec.tokens.sot, spec.tokens.eot) == (11, 10)


def test_a_description_knows_what_its_checkpoint_knows(description: Path, tmp_path: Path) -> None:
    _, whole = find_model("micro")
    spec = describe(description)
    assert (spec.dims, spec.tokens) == (whole.dims, whole.tokens)
    assert spec.alignment_heads == whole.alignment_heads
    tokenizer = tmp_path / "elsewhere.json"
    (description / "tokenizer.json").rename(tokenizer)
    assert describe(description, tokenizer).tokens == whole.tokens


def test_a_checkpoint_or_a_model_directory_is_none(description: Path, tmp_path: Path) -> None:
    assert not is_described(MICRO)
    assert not is_described(tmp_path)
    (description / "pytorch_model.bin").touch()
    assert not is_described(description)


def test_halves_that_are_missing_are_asked_for(description: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no decoder_model_merged\.onnx"):
        Transcriber.from_model(str(description))
    with pytest.raises(OptionError, match="--decoder-backend cached needs"):
        Transcriber.from_model(str(description), engine=EngineOptions(decoder_backend="cached"))


def test_an_export_without_a_tokenizer_says_so(export: Path) -> None:
    with pytest.raises(TokenizerError, match="--tokenizer"):
        Transcriber.from_model(str(export))
    with pytest.raises(TokenizerError, match="the checkpoint has 90 tokens"):
        Transcriber.from_model(
            str(export), engine=EngineOptions(tokenizer=MICRO / "tokenizer.json")
        )
