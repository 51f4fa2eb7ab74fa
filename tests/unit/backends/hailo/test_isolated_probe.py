"""Chips that are looked for, and files that are tried, in a process of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends.hailo.isolated_probe import chips, try_hef
from whisper_hailo.backends.hailo.select_hef import usable_chip
from whisper_hailo.core.errors import (
    DeviceBusyError,
    DeviceError,
    DeviceTimeoutError,
    NoDeviceError,
    WrongChipError,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def other_process(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the machine that processes started from here are on."""
    monkeypatch.setenv("STANDIN_MACHINE", str(tmp_path))

    def be(**facts: object) -> None:
        (tmp_path / "machine.json").write_text(json.dumps(facts), encoding="utf-8")

    return be


def test_chips_say_what_they_are(other_process: Any) -> None:
    (facts,) = chips()
    assert (facts.arch, facts.temperature_c) == ("hailo8l", 48.5)
    other_process(temperature_c=None)
    assert chips()[0].temperature_c is None
    other_process(devices=0)
    assert chips() == []


def test_a_driver_that_hangs_is_no_chip_and_not_the_end(other_process: Any) -> None:
    other_process(faults={"scan": {"0": "hang"}})
    with pytest.raises(DeviceTimeoutError, match="looking for chips did not end within 2 s"):
        chips(timeout_s=2)


def test_failures_are_told_by_their_own_kind(other_process: Any) -> None:
    other_process(faults={"scan": {"0": "HAILO_DRIVER_OPERATION_FAILED"}})
    with pytest.raises(DeviceError, match=r"looking for chips \(HAILO_DRIVER_OPERATION_FAILED\)"):
        chips()
    assert usable_chip()[0] is None
    assert "failed while looking for chips" in usable_chip()[1]


def test_a_library_that_ends_its_process(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hailo_platform.py").write_text("import os\nos._exit(3)", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        DeviceError, match=r"ended its process while looking .*\(code 3, not a word"
    ):
        chips()


def test_a_file_is_tried_with_real_buffers(other_process: Any, hefs: Hefs, tmp_path: Path) -> None:
    try_hef(hefs.encoder)
    try_hef(hefs.decoder)
    assert len((tmp_path / "runs.log").read_text(encoding="utf-8").splitlines()) == 2
    for facts, kind in (
        ({"devices": 0}, NoDeviceError),
        ({"chip": "hailo10h", "version": "5.1.1"}, WrongChipError),
        ({"faults": {"open": {"0": "busy"}}}, DeviceBusyError),
    ):
        other_process(**facts)
        with pytest.raises(kind):
            try_hef(hefs.encoder)
