"""The process of a build: how it ends, and what it does not tell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tools.compile.conftest import STEM
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.process import RUNTIME_SWITCH
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools import compile as compiling
from whisper_hailo_tools.compile import compile_part
from whisper_hailo_tools.options import CompileOptions


@pytest.mark.slow
def test_an_interrupt_ends_the_compiler_and_keeps_no_half_tuned_network(
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
        compiling, "supervise", lambda job, _say, python: supervise(job, interrupt, python)
    )
    with pytest.raises(KeyboardInterrupt):
        compile_part(model, encoder)
    assert any("hangs" in line for line in lines)
    names = {path.name for path in (model / "hailo" / "hailo8l").iterdir()}
    assert f"{STEM}.har" in names
    assert f"{STEM}_optimized.har" not in names


def test_the_compilers_own_runtime_does_not_report(
    model: Path, encoder: CompileOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RUNTIME_SWITCH)  # as where a bundle is built
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "{RUNTIME_SWITCH} is ${RUNTIME_SWITCH}"\nexit 4\n')
    python.chmod(0o755)
    with pytest.raises(ModelError):
        compile_part(model, replace(encoder, python=str(python)))
    log = model / "hailo" / "hailo8l" / f"{STEM}.log"
    assert f"{RUNTIME_SWITCH} is 1" in log.read_text()


@pytest.mark.slow
def test_a_build_without_its_supervisor_ends(
    model: Path, encoder: CompileOptions, tmp_path: Path
) -> None:
    job = compiling.make_job(model, ModelSpec.load(model), replace(encoder, out=tmp_path / "out"))
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
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
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
