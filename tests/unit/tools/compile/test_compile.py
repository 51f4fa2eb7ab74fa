"""Builds under a strict stand-in for the compiler: stages, resumption, records."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tools.compile.conftest import STEM
from whisper_hailo.core.errors import DeviceError, ModelError, OutputError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.compile import compile_part
from whisper_hailo_tools.options import CompileOptions


@pytest.mark.slow
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_part_becomes_a_hef(
    model: Path, sets: dict[str, Path], part: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hef = compile_part(model, CompileOptions(arch="hailo8", part=part, calibration=sets[part]))
    assert hef.path.read_bytes().startswith(b"\x01HEF")
    assert hef.recorded
    assert ModelSpec.load(model).hefs == (hef.record,)
    assert hef.record.file == f"hailo/hailo8/{hef.path.name}"
    assert hef.record.compiler_version == "3.33.0"
    assert hef.record.snr_db["output_layer1"] == 21.5
    assert len(hef.record.snr_db) == {"encoder": 1, "decoder": 4}[part]
    assert hef.record.contexts == 9
    stem = hef.path.stem
    names = {f"{stem}{suffix}" for suffix in (".har", "_optimized.har", "_compiled.har", ".alls")}
    assert names <= {path.name for path in hef.path.parent.iterdir()}
    assert "Translation completed" in caplog.text
    assert "Translation completed" in hef.path.with_suffix(".log").read_text()


@pytest.mark.slow
def test_both_parts_and_chips_are_recorded(model: Path, sets: dict[str, Path]) -> None:
    for part, calibration in sets.items():
        compile_part(model, CompileOptions(arch="hailo8", part=part, calibration=calibration))
    os.environ["STANDIN_VERSION"] = "5.1.0"
    try:
        options = CompileOptions(arch="hailo10h", part="encoder", calibration=sets["encoder"])
        compile_part(model, options)
        compile_part(model, options)
    finally:
        del os.environ["STANDIN_VERSION"]
    found = [(hef.arch, hef.part) for hef in ModelSpec.load(model).hefs]
    assert found == [("hailo10h", "encoder"), ("hailo8", "decoder"), ("hailo8", "encoder")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail", "error", "expected", "kept"),
    [
        ("parse:raise", ModelError, "failed to parse .*Agent infeasible mapping failed", ""),
        ("optimize:raise", ModelError, "failed to optimize", "parse"),
        ("compile:raise", ModelError, "failed to compile", "optimize"),
        ("compile:kill", DeviceError, "ended by SIGKILL .*finished stages are kept", "optimize"),
        ("save-optimized:disk", OutputError, "No space left on device.*stages are kept", "parse"),
    ],
)
def test_a_failed_build_goes_on_from_the_last_har(
    *,
    model: Path,
    encoder: CompileOptions,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fail: str,
    error: type[Exception],
    expected: str,
    kept: str,
) -> None:
    monkeypatch.setenv("STANDIN_FAIL", fail)
    with pytest.raises(error, match=expected):
        compile_part(model, encoder)
    folder = model / "hailo" / "hailo8l"
    assert not list(folder.glob("writing-*"))
    assert not (folder / f"{STEM}.hef").exists()
    assert ModelSpec.load(model).hefs == ()
    monkeypatch.delenv("STANDIN_FAIL")
    caplog.clear()
    caplog.set_level(logging.INFO)
    hef = compile_part(model, encoder)
    assert (f"{kept}: done before, kept" in caplog.text) is bool(kept)
    assert hef.record.snr_db == {"output_layer1": 21.5}


@pytest.mark.slow
def test_stages_are_done_again_where_their_inputs_change(
    model: Path, encoder: CompileOptions, caplog: pytest.LogCaptureFixture
) -> None:
    first = compile_part(model, encoder)
    caplog.set_level(logging.INFO)
    assert _stages(model, encoder, caplog) == {"parse": False, "optimize": False, "compile": False}
    level = replace(encoder, optimization_level=1)
    assert _stages(model, level, caplog) == {"parse": False, "optimize": True, "compile": True}
    (first.path.parent / f"{STEM}_optimized.har").write_bytes(b"damaged")
    assert _stages(model, level, caplog)["optimize"]
    first.path.unlink()
    assert _stages(model, level, caplog) == {"parse": False, "optimize": False, "compile": True}
    assert _stages(model, encoder, caplog) == {"parse": False, "optimize": True, "compile": True}
    assert compile_part(model, encoder).record == first.record


def _stages(
    model: Path, options: CompileOptions, caplog: pytest.LogCaptureFixture
) -> dict[str, bool]:
    """Which stages ran."""
    caplog.clear()
    compile_part(model, options)
    return {name: f"{name}: started" in caplog.text for name in ("parse", "optimize", "compile")}


@pytest.mark.slow
def test_ones_own_script_is_used_as_it_is(
    model: Path, encoder: CompileOptions, tmp_path: Path
) -> None:
    script = tmp_path / "own.alls"
    script.write_text("# mine\nmodel_optimization_flavor(optimization_level=0)\n")
    hef = compile_part(model, replace(encoder, script=script))
    assert hef.path.with_suffix(".alls").read_bytes() == script.read_bytes()
    script.write_text("quantization_param(conv77, precision_mode=a16_w16)\n")
    with pytest.raises(ModelError, match=r"failed to optimize .*no layer is called conv77"):
        compile_part(model, replace(encoder, script=script))
    with pytest.raises(ModelError, match="is no file"):
        compile_part(model, replace(encoder, script=tmp_path / "none.alls"))


@pytest.mark.slow
def test_results_elsewhere_leave_the_model_as_it_was(
    model: Path, encoder: CompileOptions, tmp_path: Path
) -> None:
    before = (model / "model.json").read_bytes()
    hef = compile_part(model, replace(encoder, out=tmp_path / "out"))
    assert not hef.recorded
    assert hef.path == tmp_path / "out" / f"{STEM}.hef"
    assert json.loads((tmp_path / "out" / f"{STEM}.hef.json").read_text())["arch"] == "hailo8l"
    assert (model / "model.json").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        compile_part(model, replace(encoder, out=tmp_path / "file"))
