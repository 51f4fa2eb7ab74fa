"""Work in a process of its own, whose end is not this one's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from whisper_hailo.backends.hailo import isolated_probe
from whisper_hailo.backends.hailo.isolated_probe import DiedError, run_apart, wait_at_most

PROGRAM = "tests.unit.backends.hailo.probe_programs"
ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this test are found by the processes that it starts."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def wait(process: isolated_probe.Waitable) -> None:
    assert wait_at_most(process, 60.0)


def test_what_a_library_prints_is_no_answer_and_fills_no_pipe() -> None:
    assert run_apart(PROGRAM, ["talk"], wait) is None


def test_the_last_words_of_what_died_are_kept() -> None:
    with pytest.raises(DiedError) as caught:
        run_apart(PROGRAM, ["complain"], wait, keep_log=True)
    assert (caught.value.code, caught.value.log) == (1, "of its words")


class Busy:
    """A process on a busy machine: of each second it gets a processor for a hundredth only."""

    pid = os.getpid()

    def __init__(self, ends_s: float) -> None:
        self.now_s, self._ends_s = 0.0, ends_s

    def wait(self, timeout: float | None = None) -> int:
        if self.now_s >= self._ends_s:
            return 0
        self.now_s += 1.0
        raise subprocess.TimeoutExpired("waiting", timeout or 0.0)

    def kept_waiting_s(self, _pid: int) -> float:
        return 0.99 * self.now_s


@pytest.mark.parametrize(("ends_s", "ends"), [(300.0, True), (2000.0, False)])
def test_waiting_for_a_processor_is_not_hanging(
    ends_s: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child of a busy machine was taken for one that hangs, and its chip for none."""
    process = Busy(ends_s)
    monkeypatch.setattr(isolated_probe.time, "monotonic", lambda: process.now_s)
    monkeypatch.setattr(isolated_probe, "_kept_waiting_s", process.kept_waiting_s)
    assert wait_at_most(process, 10.0) is ends


def test_the_system_counts_how_long_a_process_is_kept_waiting() -> None:
    """Of two loops on one processor one waits at any time."""
    loop = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "sh", "-c", "while :; do :; done"]
    with subprocess.Popen(loop) as one, subprocess.Popen(loop) as other:
        try:
            while isolated_probe._kept_waiting_s(one.pid) < 0.05:
                assert one.poll() is None
        finally:
            one.kill()
            other.kill()
    assert isolated_probe._kept_waiting_s(one.pid) == 0.0
