"""Trials of the chip on the stand-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.backends.hailo.conftest import Hefs, mel_of
from whisper_hailo.backends.hailo import chip_trial
from whisper_hailo.backends.hailo.binding import load_binding
from whisper_hailo.backends.hailo.chip_trial import (
    N_WINDOWS,
    call_signatures,
    measure_runs,
    recover_after_kill,
    share_with_process,
)
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.backends.options import ChipOptions
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture
def other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a machine that processes share."""
    monkeypatch.setenv("STANDIN_MACHINE", str(tmp_path))
    (tmp_path / "machine.json").write_text('{"service": true}', encoding="utf-8")
    return tmp_path


def test_measure_runs_times_every_window_but_the_first(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    machine.set(latency_ms=2)
    with HefEncoder(hefs.encoder, spec) as encoder:
        times = measure_runs(encoder, mel_of()[0])
    assert times.n_runs == N_WINDOWS
    assert machine.counts["run"] == N_WINDOWS + 1
    assert 2 <= times.min_ms <= times.median_ms <= times.max_ms
    assert times.min_ms <= times.mean_ms <= times.max_ms


def test_call_signatures_name_every_call(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        (configured,) = encoder.lease.chip.configured_models()
        signatures = call_signatures(load_binding(), configured)
    assert "callback" in signatures["ConfiguredInferModel.run_async"]
    assert "missing" not in signatures.values()
    missing = call_signatures(object(), object())
    assert set(missing.values()) == {"missing"}


def test_share_with_process_runs_beside_this_one(
    machine: Any, hefs: Hefs, spec: ModelSpec, other_machine: Path
) -> None:
    machine.set(service=True)
    with HefEncoder(hefs.encoder, spec, ChipOptions(share=True)):
        assert share_with_process(hefs.encoder) > 0


def test_share_with_process_without_service_fails(
    machine: Any, hefs: Hefs, other_machine: Path
) -> None:
    (other_machine / "machine.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DeviceError, match=r"hailort\.service.*--share"):
        share_with_process(hefs.encoder)


def test_recover_after_kill_runs_again(
    machine: Any, hefs: Hefs, other_machine: Path
) -> None:
    assert recover_after_kill(hefs.encoder) >= 0


def test_recover_after_kill_without_chip_fails(
    machine: Any, hefs: Hefs, other_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (other_machine / "machine.json").write_text('{"devices": 0}', encoding="utf-8")
    monkeypatch.setattr(chip_trial, "_READY_S", 30.0)
    with pytest.raises(DeviceError, match="ended"):
        recover_after_kill(hefs.encoder)
