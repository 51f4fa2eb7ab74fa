"""What a process of its own is asked for, done in this one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.standin.make_hef import decoder_network, encoder_network, hef
from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends.hailo import isolated_probe
from whisper_hailo.backends.hailo.isolated_probe import DiedError, Waitable
from whisper_hailo.core.errors import DeviceError, DeviceTimeoutError


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of that process is done at once."""

    def run(_module: str, words: list[str], wait: Callable[[Waitable], None], **_: bool) -> Any:
        wait(SimpleNamespace(pid=1, wait=lambda _timeout: 0))
        return isolated_probe._TASKS[words[0]](*words[1:])

    monkeypatch.setattr(isolated_probe, "run_apart", run)


@pytest.mark.usefixtures("here")
def test_every_chip_says_what_it_is(machine: Any) -> None:
    machine.set(devices=2)
    first, second = isolated_probe.chips()
    assert (first.device, second.device) == ("0000:01:00.0", "0001:01:00.0")
    assert (first.arch, first.temperature_c) == ("hailo8l", 48.5)
    machine.set(faults={"scan": {"0": "HAILO_DRIVER_OPERATION_FAILED"}})
    with pytest.raises(DeviceError, match="failed while looking for chips"):
        isolated_probe.chips()


@pytest.mark.usefixtures("here")
def test_the_first_network_of_a_file_is_run_once(
    machine: Any, hailo_directory: Path, tmp_path: Path
) -> None:
    """Also of one whose checksum is wrong: that is HailoRT's to say."""
    networks = [encoder_network(hailo_directory), decoder_network(hailo_directory)]
    path = tmp_path / "both.hef"
    changed = bytearray(hef("hailo8l", networks))
    changed[-1] ^= 1
    path.write_bytes(changed)
    seen: list[str] = []
    machine.ran = lambda network, **_: seen.append(network)
    try:
        isolated_probe.try_hef(path)
    finally:
        del machine.ran
    assert [name.split("/")[0] for name in seen] == ["micro-whisper-encoder-10s"]
    assert machine.counts["open"] == 1


def test_a_file_that_does_not_run_says_why(
    machine: Any, hefs: Hefs, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.set(faults={"run": {"0": "refuse"}})
    with pytest.raises(DeviceError, match="HAILO_INVALID_OPERATION"):
        isolated_probe.try_hef(hefs.encoder)


def test_a_process_that_hangs_or_dies_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(_timeout: float | None = None) -> int:
        raise subprocess.TimeoutExpired("x", 0)

    def hangs(_module: str, _words: list[str], wait: Any, **_: bool) -> None:
        wait(SimpleNamespace(pid=1, wait=hang))

    monkeypatch.setattr(isolated_probe, "run_apart", hangs)
    with pytest.raises(DeviceTimeoutError, match="looking for chips did not end within 0 s"):
        isolated_probe.chips(timeout_s=0.0)
    with pytest.raises(DeviceTimeoutError, match=r"running x\.hef did not end within 0 s"):
        isolated_probe.try_hef(tmp_path / "x.hef", timeout_s=0.0)
    for log, told in (("", "not a word"), ("free(): invalid", r"free\(\): invalid")):

        def dies(*_: Any, keep_log: bool = False, log: str = log) -> None:
            raise DiedError(-6, log if keep_log else "")

        monkeypatch.setattr(isolated_probe, "run_apart", dies)
        with pytest.raises(DeviceError, match=rf"while running x\.hef \(code -6, {told}\); see"):
            isolated_probe.try_hef(tmp_path / "x.hef")
