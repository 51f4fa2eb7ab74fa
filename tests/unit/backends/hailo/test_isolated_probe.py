"""Search for chips and trial of files in a process of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.standin.make_hef import decoder_network, encoder_network, hef
from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends.hailo import isolated_probe
from whisper_hailo.backends.hailo.isolated_probe import chips, try_hef
from whisper_hailo.backends.select import find_npu
from whisper_hailo.core.errors import (
    AudioError,
    DeviceBusyError,
    DeviceError,
    DeviceTimeoutError,
    NoDeviceError,
    OptionError,
    WrongChipError,
)


@pytest.fixture
def other_process(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that sets the machine of processes started from here."""
    monkeypatch.setenv("STANDIN_MACHINE", str(tmp_path))

    def set_machine(**facts: object) -> None:
        (tmp_path / "machine.json").write_text(json.dumps(facts), encoding="utf-8")

    return set_machine


@pytest.mark.slow
def test_chips_lists_facts(other_process: Any) -> None:
    (facts,) = chips()
    assert (facts.arch, facts.temperature_c) == ("hailo8l", 48.5)
    other_process(temperature_c=None)
    assert chips()[0].temperature_c is None
    other_process(devices=0)
    assert chips() == []


@pytest.mark.slow
def test_chips_of_hanging_driver_time_out(other_process: Any) -> None:
    other_process(faults={"scan": {"0": "hang"}})
    with pytest.raises(DeviceTimeoutError, match=r"^looking for chips .*\b2 s;"):
        chips(timeout_s=2)


@pytest.mark.slow
def test_chips_failures_keep_their_class(other_process: Any) -> None:
    other_process(faults={"scan": {"0": "HAILO_DRIVER_OPERATION_FAILED"}})
    with pytest.raises(
        DeviceError, match=r"looking for chips \(HAILO_DRIVER_OPERATION_FAILED\)"
    ):
        chips()
    assert find_npu()[0] is None
    assert "looking for chips" in find_npu()[1]


@pytest.mark.slow
def test_chips_of_crashing_library_raise_an_error(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hailo_platform.py").write_text(
        "import os\nos._exit(3)", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"looking for chips \(code 3, "):
        chips()


@pytest.mark.slow
def test_try_hef_runs_with_real_buffers(
    other_process: Any, hefs: Hefs, tmp_path: Path
) -> None:
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


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of that process are done in this one."""

    def ask(words: list[str], _timeout_s: float, _what: str) -> Any:
        return isolated_probe.TASKS[words[0]](*words[1:])

    monkeypatch.setattr(isolated_probe, "run_isolated", ask)


@pytest.mark.usefixtures("here")
def test_chips_lists_every_device(machine: Any) -> None:
    machine.set(devices=2)
    first, second = isolated_probe.chips()
    assert (first.device, second.device) == ("0000:01:00.0", "0001:01:00.0")
    assert (first.arch, first.temperature_c) == ("hailo8l", 48.5)
    machine.set(faults={"scan": {"0": "HAILO_DRIVER_OPERATION_FAILED"}})
    with pytest.raises(DeviceError, match="HAILO_DRIVER_OPERATION_FAILED"):
        isolated_probe.chips()


@pytest.mark.usefixtures("here")
def test_try_hef_runs_the_first_network_once(
    machine: Any, hailo_directory: Path, tmp_path: Path
) -> None:
    """Also of one whose checksum is wrong, which HailoRT checks."""
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


def test_try_hef_failure_names_the_status(
    machine: Any, hefs: Hefs, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.set(faults={"run": {"0": "refuse"}})
    with pytest.raises(DeviceError, match="HAILO_INVALID_OPERATION"):
        isolated_probe.try_hef(hefs.encoder)


class Process:
    """A fake process: it prints, and ends when it is terminated, or some waits later."""

    made: Process
    stdout = b""
    log = b""
    returncode = 0
    hangs = 0

    def __init__(self, command: list[str], **named: Any) -> None:
        type(self).made = self
        self.command = command
        self.named = named
        self.pid = 0
        self.did: list[Any] = []
        for stream, text in (
            (named["stdout"], self.stdout),
            (named["stderr"], self.log),
        ):
            stream.write(text)
            stream.flush()

    def terminate(self) -> None:
        self.did.append("terminate")

    def kill(self) -> None:
        self.did.append("kill")

    def wait(self, timeout: float | None = None) -> int:
        self.did.append(timeout)
        if self.hangs:
            type(self).hangs -= 1
            raise subprocess.TimeoutExpired("it", timeout or 0.0)
        return 0


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    made = type("FakeProcess", (Process,), {})
    monkeypatch.setattr(subprocess, "Popen", made)
    return made


def test_run_isolated_takes_the_last_line(process: type[Process]) -> None:
    process.stdout = b"a library's\n" + json.dumps({"result": [1, "\xe4"]}).encode()
    assert isolated_probe.run_isolated(["task", "word"], 1.0, "asking") == [1, "\xe4"]
    child = process.made
    assert child.command[1:] == ["-P", "-m", isolated_probe.__name__, "task", "word"]
    assert child.named["stdin"] == subprocess.DEVNULL
    assert child.named["process_group"] == 0  # Ctrl-C does not reach it
    assert child.did == [1.0, "kill", 1.0]


def test_run_isolated_raises_the_tasks_error(process: type[Process]) -> None:
    process.stdout = json.dumps({"kind": "AudioError", "message": "bad"}).encode()
    with pytest.raises(AudioError, match=r"^bad$"):
        isolated_probe.run_isolated([], 1.0, "asking")


def test_run_isolated_without_answer_raises(process: type[Process]) -> None:
    process.returncode = -11
    for stdout, log, output in (
        (b"no JSON\n", b"first\nlast \xff\n", "last \ufffd"),
        (b"", b"", "no output"),
    ):
        process.stdout = stdout
        process.log = log
        with pytest.raises(DeviceError, match=rf"asking \(code -11, {output}"):
            isolated_probe.run_isolated([], 1.0, "asking")


@pytest.mark.parametrize(("hangs", "did"), [(2, ["kill", 1.0]), (3, ["kill", 1.0])])
def test_run_isolated_kills_a_hanging_process(
    process: type[Process], hangs: int, did: list[Any]
) -> None:
    process.hangs = hangs
    with pytest.raises(DeviceTimeoutError, match=r"^asking .*\b1e-09 s;"):
        isolated_probe.run_isolated([], 1e-9, "asking")
    assert process.made.did[-2:] == did


def test_run_task_prints_result_or_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    libc = SimpleNamespace(prctl=lambda *words: calls.append(words))
    monkeypatch.setattr(isolated_probe, "LIBC", libc)

    def work(*words: str) -> list[str]:
        if words == ("fail",):
            raise OptionError("no")
        if words == ("crash",):
            raise KeyError
        return list(words)

    monkeypatch.setitem(isolated_probe.TASKS, "look", work)
    for words, output in (
        (("a", "b"), {"result": ["a", "b"]}),
        (("fail",), {"kind": "OptionError", "message": "no"}),
    ):
        sys.stdout.write("a library's, without an end")
        isolated_probe.run_task("look", *words)
        assert json.loads(capsys.readouterr().out.splitlines()[-1]) == output
    with pytest.raises(KeyError):
        isolated_probe.run_task("look", "crash")
    assert set(calls) == {(1, signal.SIGTERM)}, (
        "the system ends it when its parent has ended"
    )
