"""Libraries are kept from reporting, whoever is first and whatever the user says."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from whisper_hailo.core.process import SWITCHES, keep_private


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What an ONNX Runtime that was imported before us is told; nothing is set."""
    told: list[str] = []
    runtime = ModuleType("onnxruntime")
    runtime.disable_telemetry_events = lambda: told.append("disable")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    for switch in SWITCHES:
        monkeypatch.delenv(switch, raising=False)
    return told


@pytest.mark.parametrize("said", [None, "", "0", "1"])
def test_the_user_has_the_last_word(
    said: str | None, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for switch in SWITCHES:
        if said is not None:
            monkeypatch.setenv(switch, said)
    keep_private()
    assert {switch: os.environ[switch] for switch in SWITCHES} == {
        switch: said or off for switch, off in SWITCHES.items()
    }
    assert calls == ([] if said else ["disable"])


def test_a_runtime_that_came_first_is_told_and_so_is_the_user(
    calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    keep_private()
    assert {name: os.environ[name] for name in SWITCHES} == {
        "ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    assert calls == ["disable"]
    assert "import whisper_hailo first, or set ORT_DISABLE_TELEMETRY=1" in caplog.text


def test_a_runtime_without_that_call_is_left_alone(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    keep_private()
    assert not calls
    assert not caplog.text


@pytest.mark.parametrize("module", ["whisper_hailo", "whisper_hailo_lab.harness.worker"])
def test_switches_are_set_before_a_library_is_there(module: str) -> None:
    code = f"import os, sys, {module}; print('onnxruntime' in sys.modules)"
    code += f"; print(*(os.environ[switch] for switch in {[*SWITCHES]}))"
    bare = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    done = subprocess.run(
        [sys.executable, "-c", code], env=bare, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["False", "1 1 0"]
