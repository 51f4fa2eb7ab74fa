"""What `validate` asks for, and what it tells."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import Asked
from whisper_hailo.cli.app import run
from whisper_hailo_tools.difference import Difference
from whisper_hailo_tools.options import ValidateOptions
from whisper_hailo_tools.validate.stage_checks import (
    Agreement,
    FormResult,
    LayerResult,
    Limit,
)
from whisper_hailo_tools.validate.validate import ParityReport

VALIDATE = "whisper_hailo_tools.validate.validate"
FAR = Difference(0.25, 0.0125, 0.1, 0.987654321, 12.34, 23.45)
SAME = Difference(0.0, 0.0, 0.0, 1.0, math.inf, math.inf)
STRICT = Limit(80.0)


def make_report(*results: FormResult) -> ParityReport:
    used = (("a.wav", 0), ("a.wav", 1))
    return ParityReport("toy", "the checkpoint", 10.0, used, {}, {}, results)


def kind(
    status: str,
    *,
    tokens: Agreement | None = None,
    layers: tuple[LayerResult, ...] = (),
) -> FormResult:
    limit = Limit(15.0)
    return FormResult("emulated", "encoder", status, "g", limit, FAR, tokens, layers)


def validated(
    report: ParityReport,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str = "",
) -> tuple[int, str, list[tuple[Any, ...]]]:
    """Exit code, standard output, and what was asked for."""
    recorded_calls = Asked(report).patched(
        monkeypatch, "whisper_hailo_tools.validate.validate.validate"
    )
    code = run(["validate", ".", *words.split()])
    return code, capsys.readouterr().out, recorded_calls.with_


def test_validate_prints_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Columns stand below their headings; rungs that were not run say why."""
    monkeypatch.chdir(tmp_path)
    exact = FormResult("float32", "decoder", "passed", "g", STRICT, SAME)
    report = make_report(
        exact,
        kind("passed", tokens=Agreement(19, 20)),
        FormResult("hef", "encoder", "not run", "no"),
    )
    code, out, recorded_calls = validated(report, monkeypatch, capsys)
    assert code == 0
    assert out.splitlines() == [
        "toy: passed; 2 windows of 10 s, against the checkpoint",
        "rung      part     result  max   mean   cosine    SNR dB  PSNR dB  limit"
        "         tokens",
        "float32   decoder  passed  0     0      1.000000  equal   equal    SNR >= 80 dB",
        "emulated  encoder  passed  0.25  0.013  0.987654  12.3    23.4     SNR >= 15 dB"
        "  19 of 20",
        "hef       encoder  not run: no",
        "parity.json",
    ]
    assert recorded_calls == [(Path("."), ValidateOptions())]
    assert json.loads((tmp_path / "parity.json").read_text())["passed"] is True


def test_validate_failure_names_the_steepest_fall(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    layers = (LayerResult("a", 40.0), LayerResult("b", 12.3), LayerResult("c", 11.0))
    code, out, _ = validated(
        make_report(kind("failed", layers=layers)), monkeypatch, capsys
    )
    assert code == 4
    lines = out.splitlines()
    assert lines[0].startswith("toy: FAILED; ")
    assert "a (40.0 dB) to b (12.3 dB)" in lines[-2]
    _, out, _ = validated(
        make_report(kind("passed", layers=layers)), monkeypatch, capsys
    )
    assert "falls" not in out


def test_validate_writes_json_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    report = make_report(kind("failed"))
    words = "--json --out there --windows 2 -l de"
    code, out, recorded_calls = validated(report, monkeypatch, capsys, words)
    assert code == 4
    assert json.loads(out) == json.loads(report.to_json())
    assert recorded_calls == [(Path("."), ValidateOptions(windows=2, language="de"))]
    assert (tmp_path / "there" / "parity.json").read_text() == report.to_json()


def test_validate_to_unwritable_place_fails_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The model directory, or the one that is typed; where there is no model that is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    looked: list[Path] = []
    monkeypatch.setattr(
        "whisper_hailo.core.atomic_files.require_writable_folder",
        lambda at, _: looked.append(at),
    )
    recorded_calls = Asked(make_report()).patched(
        monkeypatch, "whisper_hailo_tools.validate.validate.validate"
    )
    for words in ("model", "model --out there", "missing", "missing --out there"):
        assert run(["validate", *words.split()]) == 0
    assert looked == [Path("model"), Path("there"), Path("there")]
    assert len(recorded_calls.with_) == 4
    capsys.readouterr()
