"""Models that are bundled, cached and known: listed, fetched, verified, removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from whisper_hailo.checkpoint.hub import SHORT_NAMES
from whisper_hailo.cli.app import run
from whisper_hailo.convert.cached import cached_as, cached_models
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.core.files import CACHE_VARIABLE
from whisper_hailo.core.spec import DECODER_FILE


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the bundled model in it."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        resolve_model("micro")
    return folder


@pytest.fixture
def cache(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that may be damaged."""
    shutil.copytree(made, tmp_path / "cache")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_list_says_what_there_is(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models"]) == 0
    told = capsys.readouterr().out
    assert str(cache / "models") in told
    assert "micro  decoder int8, encoder int8" in told
    for name, hub_id in SHORT_NAMES.items():
        assert f"  {name} " in told
        assert hub_id in told


def test_the_list_as_json(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bundled"] == ["micro"]
    assert facts["known"] == SHORT_NAMES
    (model,) = facts["cached"]
    assert (model["name"], model["quantization"]) == ("micro", "int8")
    files = [path for path in Path(model["directory"]).rglob("*") if path.is_file()]
    described = Path(model["directory"]) / "model.json"
    assert model["bytes"] == sum(p.stat().st_size for p in files) - described.stat().st_size
    assert Path(model["directory"]).is_relative_to(cache)


@pytest.mark.usefixtures("cache")
def test_a_damaged_file_is_found_whatever_its_times_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "verify", "micro"]) == 0
    assert capsys.readouterr().out.endswith(": whole\n")
    (model,) = cached_as("micro")
    file = model.directory / DECODER_FILE
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    (model.directory / "tokenizer.json").unlink()
    assert run(["models", "verify", "micro"]) == 4
    told = capsys.readouterr().out
    assert "decoder.onnx is damaged" in told
    assert "tokenizer.json is missing" in told


def test_what_is_removed_is_gone_and_made_anew_when_it_is_asked_for(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model,) = cached_models()
    assert run(["models", "remove", model.directory.name]) == 0
    assert "micro  decoder int8" in capsys.readouterr().out
    assert not list((cache / "models").iterdir())
    assert run(["models", "remove", "micro"]) == 4
    assert "micro is not in the cache; there are: none" in capsys.readouterr().err
    assert run(["models", "fetch", "micro", "--quantize", "none"]) == 0
    assert "micro-none-" in capsys.readouterr().out
    assert [model.spec.quantization for model in cached_as("micro")] == ["none"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frobnicate", "models frobnicate is unknown, expected one of: list, fetch, verify"),
        ("list tiny", "models list takes no names"),
        ("remove", "models remove needs the name of a model"),
    ],
)
def test_wrong_words_are_told(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", *words.split()]) == 2
    assert said in capsys.readouterr().err
