"""Directories with a checkpoint's description and graphs of another program are models, too."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.backends.conftest import GOLDENS
from tests.unit.shapes import toy_spec
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.convert.model_cache import describe, find_model, is_described
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError, TokenizerError
from whisper_hailo.core.spec import SPEC_FILE
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


def test_a_description_with_its_conversion_beside_it_is_a_model_directory(
    description: Path,
) -> None:
    spec = replace(toy_spec(), quantization="int4")
    (description / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    assert find_model(str(description)) == (description, spec)


def test_a_description_is_not_asked_for_another_form(description: Path) -> None:
    """It is float32, as the graphs of other programs are."""
    for options in (None, ConvertOptions(), ConvertOptions("none", "none")):
        assert find_model(str(description), options)[0] == description
    with pytest.raises(OptionError, match=r"--quantize is int8, .* has none; leave it out"):
        find_model(str(description), ConvertOptions("int8"))


def test_without_a_generation_config_the_upper_half_tells_times(description: Path) -> None:
    (description / "generation_config.json").unlink()
    spec = describe(description)
    n_layers, n_heads = spec.dims.n_decoder_layers, spec.dims.n_decoder_heads
    upper = range(n_layers // 2, n_layers)
    assert spec.alignment_heads == tuple((i, head) for i in upper for head in range(n_heads))


def test_all_others_are_asked_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def resolve(name: str, options: object = None, *, revision: str | None = None) -> Path:
        asked.append((name, options, revision))
        return tmp_path

    monkeypatch.setattr("whisper_hailo.convert.model_cache.resolve_model", resolve)
    (tmp_path / SPEC_FILE).write_text(toy_spec().to_json(), encoding="utf-8")
    options = ConvertOptions("int4")
    assert find_model("tiny", options, revision="v2") == (tmp_path, toy_spec())
    assert find_model(str(tmp_path)) == (tmp_path, toy_spec())
    assert asked == [("tiny", options, "v2"), (str(tmp_path), None, None)]


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
