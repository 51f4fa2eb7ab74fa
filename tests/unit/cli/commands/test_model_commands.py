"""What `convert`, `inspect` and `validate` ask for, and what they tell of models."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.commands.asked import Asked
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.cli.app import run
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.core.spec import FileRecord, ModelSource, ModelSpec
from whisper_hailo.validate.difference import Difference
from whisper_hailo.validate.options import Limit, ValidateOptions
from whisper_hailo.validate.report import ParityReport
from whisper_hailo.validate.stage_checks import Agreement, LayerResult, RungResult, not_run

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
    asked: list[Any] = []

    def make(directory: Path, out: Path, options: ConvertOptions, *, source: ModelSource) -> Any:
        asked.append((directory, out, options, source))
        return spec

    monkeypatch.setattr("whisper_hailo.convert.convert.convert_checkpoint", make)
    found = Asked(None)
    found.with_ = asked
    return found


def test_what_was_converted(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = convert(monkeypatch, spec)
    words = ["convert", "micro", "out", "--quantize", "int8", "--hailo", "--window", "10"]
    assert run(words) == 0
    told, dims = capsys.readouterr(), spec.dims
    sizes = f"{dims.n_encoder_layers}+{dims.n_decoder_layers} layers, {dims.n_mels} mel bins"
    assert told.out == (
        f"out: micro, width {dims.d_model}, {sizes}, {dims.n_vocab} tokens, decoder int8, encoder "
        "none, 1.5 MiB\n"
    )
    assert "converted in " in told.err
    ((directory, out, options, source),) = asked.with_
    assert (directory, out, source.name) == (ASSETS / "micro", Path("out"), "micro")
    assert options == ConvertOptions("int8", hailo=HailoOptions(window_s=10.0))


def test_what_was_converted_for_a_chip_and_in_float16(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(monkeypatch, replace(spec, half=True, hailo=(FORM, replace(FORM, file="d.onnx"))))
    assert run(["convert", "micro", "out"]) == 0
    line = capsys.readouterr().out
    assert line.endswith(", encoder none, float16, 1.5 MiB, hailo/e.onnx, d.onnx\n")


def test_what_was_converted_as_json(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(monkeypatch, spec)
    clock = iter((100.0, 102.5))
    monkeypatch.setattr("whisper_hailo.cli.commands.convert.perf_counter", lambda: next(clock))
    assert run(["convert", "micro", "out", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["directory"], facts["elapsed_s"], facts["name"]) == ("out", 2.5, "micro")
    assert facts["files"]["b.onnx"] == {"bytes": 1 << 19, "sha256": "y"}


def test_a_checkpoint_is_fetched_at_the_revision_that_is_typed(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = convert(monkeypatch, spec)
    source = ModelSource("openai/whisper-tiny", "abc")
    found = Asked((Path("checkpoint"), source))
    found.patched(monkeypatch, "whisper_hailo.checkpoint.hub.locate")
    assert run(["convert", "tiny", "out", "--revision", "abc"]) == 0
    ((name, revision),) = found.with_
    assert (name.hub_id, revision) == ("openai/whisper-tiny", "abc")
    assert asked.with_ == [(Path("checkpoint"), Path("out"), ConvertOptions(), source)]


def test_what_is_no_checkpoint_or_would_be_lost(
    micro: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    asked = convert(monkeypatch, spec)
    assert run(["convert", str(micro), str(tmp_path / "out")]) == 4
    assert "is a converted model directory" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert run(["convert", str(tmp_path), "."]) == 2
    assert "is the checkpoint itself; give another directory" in capsys.readouterr().err
    assert asked.with_ == []


def test_facts_of_a_file_are_an_outline_or_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {"name": "toy", "dims": {"layers": 4, "more": {"heads": 2}}, "files": ["a", "b"]}
    asked = Asked(facts).patched(monkeypatch, "whisper_hailo.convert.inspect.describe")
    assert run(["inspect", "model"]) == 0
    assert capsys.readouterr().out == (
        "name: toy\ndims:\n  layers: 4\n  more:\n    heads: 2\nfiles: ['a', 'b']\n"
    )
    assert run(["inspect", "model", "--json"]) == 0
    assert capsys.readouterr().out == json.dumps(facts, indent=2) + "\n"
    assert asked.with_ == [(Path("model"),)] * 2


FAR = Difference(0.25, 0.0125, 0.1, 0.987654321, 12.34, 23.45)
SAME = Difference(0.0, 0.0, 0.0, 1.0, math.inf, math.inf)
STRICT = Limit("relative", 1e-4)


def found(*results: RungResult) -> ParityReport:
    used = (("a.wav", 0), ("a.wav", 1))
    return ParityReport("toy", Path("m"), "the checkpoint", 10.0, used, (), {}, {}, results)


def rung(
    status: str, *, tokens: Agreement | None = None, layers: tuple[LayerResult, ...] = ()
) -> RungResult:
    limit = Limit("snr_db", 15.0)
    return RungResult("emulated", "encoder", status, "g", "r", limit, FAR, tokens, layers)


def validated(
    report: ParityReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: str = "",
) -> tuple[int, str, list[tuple[Any, ...]]]:  # fmt: skip
    """Exit code, standard output, and what was asked for."""
    asked = Asked(report).patched(monkeypatch, "whisper_hailo.validate.validate.validate")
    files = Path("parity.json"), Path("parity.svg")
    written = Asked(files).patched(monkeypatch, "whisper_hailo.validate.report.write_report")
    code = run(["validate", ".", *words.split()])
    return code, capsys.readouterr().out, asked.with_ + written.with_


def test_a_ladder_that_was_climbed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Columns stand below their headings; rungs that were not run say why."""
    monkeypatch.chdir(tmp_path)
    exact = RungResult("float32", "decoder", "passed", "g", "r", STRICT, SAME)
    report = found(exact, rung("passed", tokens=Agreement(19, 20)), not_run("hef", "encoder", "no"))
    code, out, asked = validated(report, monkeypatch, capsys)
    assert code == 0
    assert out.splitlines() == [
        "toy: passed; 2 windows of 10 s, against the checkpoint",
        "rung      part     result  max   mean   cosine    SNR dB  PSNR dB  limit"
        "               tokens",
        "float32   decoder  passed  0     0      1.000000  equal   equal    relative <= 0.0001",
        "emulated  encoder  passed  0.25  0.013  0.987654  12.3    23.4     SNR >= 15 dB"
        "        19 of 20",
        "hef       encoder  not run: no",
        "parity.json, parity.svg",
    ]
    assert asked == [(Path("."), ValidateOptions()), (report, Path("."))]


def test_failed_rung_names_where_it_loses_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    layers = (LayerResult("a", 40.0), LayerResult("b", 12.3), LayerResult("c", 11.0))
    code, out, _ = validated(found(rung("failed", layers=layers)), monkeypatch, capsys)
    assert code == 4
    lines = out.splitlines()
    assert lines[0].startswith("toy: FAILED; ")
    assert "a (40.0 dB) to b (12.3 dB)" in lines[-2]
    _, out, _ = validated(found(rung("passed", layers=layers)), monkeypatch, capsys)
    assert "falls" not in out


def test_a_ladder_as_json_and_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    report = found(rung("failed"))
    words = "--json --out there --windows 2 -l de --limit emulated-encoder=12"
    code, out, asked = validated(report, monkeypatch, capsys, words)
    assert code == 4
    assert json.loads(out) == json.loads(report.to_json())
    options = ValidateOptions(windows=2, language="de", limits=("emulated-encoder=12",))
    assert asked == [(Path("."), options), (report, Path("there"))]


def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The model directory, or the one that is typed; where there is no model that is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    looked: list[Path] = []
    monkeypatch.setattr("whisper_hailo.core.files.expect_folder", lambda at, _: looked.append(at))
    asked = Asked(found()).patched(monkeypatch, "whisper_hailo.validate.validate.validate")
    Asked(("a", "b")).patched(monkeypatch, "whisper_hailo.validate.report.write_report")
    for words in ("model", "model --out there", "missing", "missing --out there"):
        assert run(["validate", *words.split()]) == 0
    assert looked == [Path("model"), Path("there"), Path("there")]
    assert len(asked.with_) == 4
    capsys.readouterr()
