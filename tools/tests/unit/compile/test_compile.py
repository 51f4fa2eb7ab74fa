"""Builds under a strict stand-in for the compiler: stages, resumption, records."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tools.tests.unit.compile.conftest import STEM
from whisper_hailo.core.errors import DeviceError, ModelError, OptionError, OutputError
from whisper_hailo.core.process import RUNTIME_SWITCH
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools import compile as compiling
from whisper_hailo_tools.compile import compile_part
from whisper_hailo_tools.options import CompileOptions


@pytest.mark.slow
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_compile_part_makes_a_hef(
    model: Path, sets: dict[str, Path], part: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hef = compile_part(
        model, CompileOptions(arch="hailo8", part=part, calibration=sets[part])
    )
    assert hef.path.read_bytes().startswith(b"\x01HEF")
    assert hef.recorded
    assert ModelSpec.load(model).hefs == (hef.record,)
    assert hef.record.file == f"hailo/hailo8/{hef.path.name}"
    assert hef.record.compiler_version == "3.33.0"
    assert hef.record.snr_db["output_layer1"] == 21.5
    assert len(hef.record.snr_db) == {"encoder": 1, "decoder": 4}[part]
    assert hef.record.contexts == 9
    stem = hef.path.stem
    names = {
        f"{stem}{suffix}"
        for suffix in (".har", "_optimized.har", "_compiled.har", ".alls")
    }
    assert names <= {path.name for path in hef.path.parent.iterdir()}
    assert "Translation completed" in caplog.text
    assert "Translation completed" in hef.path.with_suffix(".log").read_text()


@pytest.mark.slow
def test_compile_part_records_parts_and_chips(
    model: Path, sets: dict[str, Path]
) -> None:
    for part, calibration in sets.items():
        compile_part(
            model, CompileOptions(arch="hailo8", part=part, calibration=calibration)
        )
    os.environ["STANDIN_VERSION"] = "5.1.0"
    try:
        options = CompileOptions(
            arch="hailo10h", part="encoder", calibration=sets["encoder"]
        )
        compile_part(model, options)
        compile_part(model, options)
    finally:
        del os.environ["STANDIN_VERSION"]
    listed_hefs = [(hef.arch, hef.part) for hef in ModelSpec.load(model).hefs]
    assert listed_hefs == [
        ("hailo10h", "encoder"),
        ("hailo8", "decoder"),
        ("hailo8", "encoder"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail", "error", "expected", "last_stage"),
    [
        ("parse:raise", ModelError, "parse .*mapping failed", ""),
        ("optimize:raise", ModelError, "optimize", "parse"),
        ("compile:raise", ModelError, "compile", "optimize"),
        ("compile:kill", DeviceError, "SIGKILL", "optimize"),
        ("save-optimized:disk", OutputError, os.strerror(errno.ENOSPC), "parse"),
    ],
)
def test_compile_part_continues_from_the_last_har(
    *,
    model: Path,
    encoder: CompileOptions,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fail: str,
    error: type[Exception],
    expected: str,
    last_stage: str,
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
    assert (f"{last_stage}: already done, kept" in caplog.text) is bool(last_stage)
    assert hef.record.snr_db == {"output_layer1": 21.5}


@pytest.mark.slow
def test_compile_part_repeats_stages_of_changed_inputs(
    model: Path, encoder: CompileOptions, caplog: pytest.LogCaptureFixture
) -> None:
    first = compile_part(model, encoder)
    caplog.set_level(logging.INFO)
    assert _stages(model, encoder, caplog) == {
        "parse": False,
        "optimize": False,
        "compile": False,
    }
    level = replace(encoder, optimization_level=1)
    assert _stages(model, level, caplog) == {
        "parse": False,
        "optimize": True,
        "compile": True,
    }
    (first.path.parent / f"{STEM}_optimized.har").write_bytes(b"damaged")
    assert _stages(model, level, caplog)["optimize"]
    first.path.unlink()
    assert _stages(model, level, caplog) == {
        "parse": False,
        "optimize": False,
        "compile": True,
    }
    assert _stages(model, encoder, caplog) == {
        "parse": False,
        "optimize": True,
        "compile": True,
    }
    assert compile_part(model, encoder).record == first.record


def _stages(
    model: Path, options: CompileOptions, caplog: pytest.LogCaptureFixture
) -> dict[str, bool]:
    """Which stages ran."""
    caplog.clear()
    compile_part(model, options)
    return {
        name: f"{name}: started" in caplog.text
        for name in ("parse", "optimize", "compile")
    }


@pytest.mark.slow
def test_compile_part_uses_the_users_script(
    model: Path, encoder: CompileOptions, tmp_path: Path
) -> None:
    script = tmp_path / "own.alls"
    script.write_text("# mine\nmodel_optimization_flavor(optimization_level=0)\n")
    hef = compile_part(model, replace(encoder, script=script))
    assert hef.path.with_suffix(".alls").read_bytes() == script.read_bytes()
    script.write_text("quantization_param(conv77, precision_mode=a16_w16)\n")
    with pytest.raises(ModelError, match="conv77"):
        compile_part(model, replace(encoder, script=script))
    with pytest.raises(ModelError, match=r"none\.alls"):
        compile_part(model, replace(encoder, script=tmp_path / "none.alls"))


@pytest.mark.slow
def test_compile_part_to_other_folder_leaves_the_model(
    model: Path, encoder: CompileOptions, tmp_path: Path
) -> None:
    before = (model / "model.json").read_bytes()
    hef = compile_part(model, replace(encoder, out=tmp_path / "out"))
    assert not hef.recorded
    assert hef.path == tmp_path / "out" / f"{STEM}.hef"
    assert (
        json.loads((tmp_path / "out" / f"{STEM}.hef.json").read_text())["arch"]
        == "hailo8l"
    )
    assert (model / "model.json").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        compile_part(model, replace(encoder, out=tmp_path / "file"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "version", "expected"),
    [
        ("hailo8", "3.30.0", "3.30.0 .*hailo8"),
        ("hailo8l", "5.0.0", "5.0.0 .*hailo8l"),
        ("hailo10h", "3.33.0", "3.33.0 .*hailo10h"),
        ("hailo8", "unknown", "version"),
    ],
)
def test_compile_part_with_wrong_version_is_refused(
    *,
    model: Path,
    encoder: CompileOptions,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    version: str,
    expected: str,
) -> None:
    monkeypatch.setenv("STANDIN_VERSION", version)
    with pytest.raises(DeviceError, match=expected):
        compile_part(model, replace(encoder, arch=arch))


@pytest.mark.slow
def test_compile_part_without_compiler_is_refused(
    model: Path, encoder: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAIL", "import:broken")
    with pytest.raises(DeviceError, match="libhailort"):
        compile_part(model, encoder)
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(DeviceError, match="--python"):
        compile_part(model, encoder)
    with pytest.raises(DeviceError, match="/nowhere/python"):
        compile_part(model, replace(encoder, python="/nowhere/python"))


def test_compile_part_with_unfit_calibration_is_refused(
    model: Path, encoder: CompileOptions, sets: dict[str, Path], tmp_path: Path
) -> None:
    wrong = {
        "long.npy": np.zeros((2, 1, 1000, 80), np.float32),
        "double.npy": np.zeros((2, 1, 200, 80)),
        "empty.npy": np.zeros((0, 1, 200, 80), np.float32),
    }
    for name, array in wrong.items():
        np.save(tmp_path / name, array)
    (tmp_path / "text.npy").write_text("no array")
    for path in (
        *(tmp_path / name for name in (*wrong, "text.npy", "none.npy")),
        sets["decoder"],
    ):
        with pytest.raises(ModelError, match="calibrate"):
            compile_part(model, replace(encoder, calibration=path))
    with pytest.raises(ModelError, match="array"):
        compile_part(model, replace(encoder, part="decoder"))


def test_compile_part_of_changed_graph_is_refused(
    model: Path, encoder: CompileOptions
) -> None:
    with (model / "hailo" / "encoder-2s.onnx").open("r+b") as file:
        file.write(b"\0")
    with pytest.raises(ModelError, match=r"encoder-2s\.onnx"):
        compile_part(model, encoder)
    (model / "hailo" / "encoder-2s.onnx").unlink()
    with pytest.raises(ModelError, match=r"hailo/encoder-2s\.onnx"):
        compile_part(model, encoder)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"arch": "hailo9"}, "--arch is 'hailo9'"),
        ({"part": "middle"}, "--part is 'middle'"),
        ({"optimization_level": 5}, "--optimization-level is 5"),
        ({"optimization_level": 1, "script": Path("own.alls")}, "--script"),
    ],
)
def test_options_that_are_wrong_are_refused(
    encoder: CompileOptions, wrong: dict[str, object], expected: str
) -> None:
    with pytest.raises(OptionError, match=expected):
        replace(encoder, **wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_compile_part_interrupted_keeps_no_half_network(
    model: Path, encoder: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAIL", "optimize:hang")
    lines: list[str] = []

    def interrupt(line: str) -> None:
        lines.append(line)
        if "hangs" in line:
            raise KeyboardInterrupt

    supervise = compiling.supervise
    monkeypatch.setattr(
        compiling,
        "supervise",
        lambda job, _say, python: supervise(job, interrupt, python),
    )
    with pytest.raises(KeyboardInterrupt):
        compile_part(model, encoder)
    assert any("hangs" in line for line in lines)
    names = {path.name for path in (model / "hailo" / "hailo8l").iterdir()}
    assert f"{STEM}.har" in names
    assert f"{STEM}_optimized.har" not in names


def test_compile_part_switches_telemetry_off(
    model: Path,
    encoder: CompileOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(RUNTIME_SWITCH)  # as where a bundle is built
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "{RUNTIME_SWITCH} is ${RUNTIME_SWITCH}"\nexit 4\n'
    )
    python.chmod(0o755)
    with pytest.raises(ModelError):
        compile_part(model, replace(encoder, python=str(python)))
    log = model / "hailo" / "hailo8l" / f"{STEM}.log"
    assert f"{RUNTIME_SWITCH} is 1" in log.read_text()


@pytest.mark.slow
def test_compile_part_without_supervisor_ends(
    model: Path, encoder: CompileOptions, tmp_path: Path
) -> None:
    job = compiling.make_job(
        model, ModelSpec.load(model), replace(encoder, out=tmp_path / "out")
    )
    (tmp_path / "job.json").write_text(job.to_json())
    code = (
        "import subprocess, sys; from whisper_hailo_tools.hef_build import supervise as s; "
        "from pathlib import Path; s.supervise(Path(sys.argv[1]), lambda line: print(line, "
        "flush=True))"
    )
    env = {**os.environ, "STANDIN_FAIL": "optimize:hang"}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "job.json")],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "hangs" in line:
                break
        children = (
            Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        )
        process.kill()
    assert len(children) == 1
    deadline = time.monotonic() + 30
    while _runs(int(children[0])) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _runs(int(children[0]))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"
