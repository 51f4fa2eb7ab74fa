"""The commands `convert` and `inspect`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import Asked, missing_data
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.cli.app import run
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.spec import FileRecord, HailoForm, ModelSource, ModelSpec

FORM = HailoForm(
    "encoder", "hailo/e.onnx", 10, None, 17, {"mel": (1, 80, 1, 1000)}, {"out": (1, 500, 64)},
    ("a",), ("z",), ((1, 1, 1000, 80),),
)  # fmt: skip
FILES = {"a.onnx": FileRecord(1 << 20, "x"), "b.onnx": FileRecord(1 << 19, "y")}


@pytest.fixture(scope="module")
def micro(own_cache: None) -> Path:
    return resolve_model("micro")


@pytest.fixture
def spec(micro: Path) -> ModelSpec:
    return replace(ModelSpec.load(micro), files=FILES, half=False)


def convert(monkeypatch: pytest.MonkeyPatch, spec: ModelSpec) -> Asked:
    calls: list[Any] = []

    def make(
        directory: Path, out: Path, options: ConvertOptions, *, source: ModelSource
    ) -> Any:
        calls.append((directory, out, options, source))
        return spec

    monkeypatch.setattr("whisper_hailo.convert.convert.convert_checkpoint", make)
    found = Asked(None)
    found.with_ = calls
    return found


def test_convert_prints_result_and_passes_options(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = convert(monkeypatch, spec)
    words = [
        "convert",
        "micro",
        "out",
        "--quantize",
        "int8",
        "--hailo",
        "--window",
        "10",
    ]
    assert run(words) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert not missing_data(line, "out micro int8 '1.5 MiB'")
    ((directory, out, options, source),) = calls.with_
    assert (directory, out, source.name) == (ASSETS / "micro", Path("out"), "micro")
    assert options == ConvertOptions("int8", hailo=HailoOptions(window_s=10.0))


def test_convert_prints_hailo_forms(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(monkeypatch, replace(spec, hailo=(FORM, replace(FORM, file="d.onnx"))))
    assert run(["convert", "micro", "out"]) == 0
    assert not missing_data(capsys.readouterr().out, "hailo/e.onnx d.onnx")


def test_convert_revision_reaches_the_hub(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = convert(monkeypatch, spec)
    source = ModelSource("openai/whisper-tiny", "abc")
    found = Asked((Path("checkpoint"), source))
    found.patched(monkeypatch, "whisper_hailo.checkpoint.hub.locate_checkpoint")
    assert run(["convert", "tiny", "out", "--revision", "abc"]) == 0
    ((name, revision),) = found.with_
    assert (name.hub_id, revision) == ("openai/whisper-tiny", "abc")
    assert calls.with_ == [(Path("checkpoint"), Path("out"), ConvertOptions(), source)]


def test_convert_model_directory_or_source_is_refused(
    micro: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    calls = convert(monkeypatch, spec)
    assert run(["convert", str(micro), str(tmp_path / "out")]) == 4
    assert str(micro) in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert run(["convert", str(tmp_path), "."]) == 2
    assert "checkpoint" in capsys.readouterr().err
    assert run(["convert", str(tmp_path), "base.onnx"]) == 2
    assert "base.onnx" in capsys.readouterr().err
    assert calls.with_ == []


def test_inspect_prints_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {
        "name": "toy",
        "dims": {"layers": 4, "more": {"heads": 2}},
        "files": ["a", "b"],
    }
    calls = Asked(facts).patched(monkeypatch, "whisper_hailo.convert.inspect.describe")
    assert run(["inspect", "model"]) == 0
    assert capsys.readouterr().out == json.dumps(facts, indent=2) + "\n"
    assert calls.with_ == [(Path("model"),)]
