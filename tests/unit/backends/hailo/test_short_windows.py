"""Preference of `auto` for the CPU where a chip's window is short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import missing_data
from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends import select as select_module
from whisper_hailo.backends.hailo import short_windows
from whisper_hailo.backends.hailo.short_windows import cpu_load, why_cpu_is_better
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import select
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))


def _load(monkeypatch: pytest.MonkeyPatch, load: float) -> None:
    monkeypatch.setattr(short_windows, "cpu_load", lambda *_: load)


def test_why_cpu_is_better_names_file_and_window(
    hefs: Hefs, hailo_directory: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    _load(monkeypatch, 0.1)
    reason = why_cpu_is_better(hefs.encoder, hailo_directory, spec)
    assert missing_data(reason, f"{hefs.encoder.name} '2 s' '10 times'") == []
    assert "--encoder-backend hailo" in reason


def test_why_cpu_is_better_on_slow_processor_is_empty(
    hefs: Hefs, hailo_directory: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    _load(monkeypatch, 0.6)
    assert why_cpu_is_better(hefs.encoder, hailo_directory, spec) == ""


def test_why_cpu_is_better_of_long_window_is_empty(
    hefs: Hefs, hailo_directory: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    _load(monkeypatch, 0.1)
    monkeypatch.setattr(short_windows, "SHORTEST_S", 2.0)
    assert why_cpu_is_better(hefs.encoder, hailo_directory, spec) == ""


def test_cpu_load_is_measured_once(
    hailo_directory: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = cpu_load(hailo_directory, spec, 1)
    assert load > 0

    def fail(*_: Any) -> Any:
        raise AssertionError("it is kept")

    monkeypatch.setattr(OnnxEncoder, "encode", fail)
    assert cpu_load(hailo_directory, spec, 1) == load


def test_select_auto_with_short_window_takes_cpu_unless_asked(
    *,
    trial_machine: Any,
    hefs: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _load(monkeypatch, 0.1)
    monkeypatch.setattr(select_module, "find_npu", lambda: ("hailo8l", "a chip"))
    monkeypatch.setattr(
        "whisper_hailo.backends.hailo.hef_catalog.fitting_encoder",
        lambda *_: (hefs.encoder, ""),
    )
    engine = select(hailo_directory, spec, EngineOptions(), 1)
    assert isinstance(engine.encoder, OnnxEncoder)
    assert "windows of 2 s" in engine.reasons[0]
    engine = select(hailo_directory, spec, EngineOptions(), 1, window_s=2.0)
    assert engine.encoder.name == "hef-hailo8l"
