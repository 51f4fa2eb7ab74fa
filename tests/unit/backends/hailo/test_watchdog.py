"""Timers that end a call that hangs, also one that holds the lock of Python."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.standin import FOLDER, with_chip
from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends.hailo import watchdog as watchdog_module
from whisper_hailo.backends.hailo.watchdog import bounded
from whisper_hailo.core.errors import ExitCode

PATIENCE_S = 120
HANG = """
import signal, sys, threading, time
from hailo_platform._machine import MACHINE
from whisper_hailo.backends.hailo.watchdog import bounded
def hang():
    print("here", flush=True)
    MACHINE.hang()
"""
FULL_PIPE = """
import os, sys, time
from whisper_hailo.backends.hailo import watchdog
watchdog._DELIVERY_S = float(sys.argv[1])
os.set_blocking(2, False)
try:
    while True:
        os.write(2, bytes(4096))
except BlockingIOError:
    os.set_blocking(2, True)
print("full", flush=True)
with watchdog.bounded(0.1, "sleeping"):
    time.sleep(3600)
"""
ENCODE = """
import sys
from pathlib import Path
import numpy as np
from whisper_hailo.backends.hailo import chip
from whisper_hailo.backends.hailo.watchdog import bounded
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.core.spec import ModelSpec
hef, model, soon = sys.argv[1:]
chip.bounded = lambda _, what: bounded(1 if what.startswith(soon) else 3600, what)
with HefEncoder(Path(hef), ModelSpec.load(Path(model))) as encoder:
    print(encoder.encode(np.zeros((1, 80, 200), np.float32)).shape, flush=True)
print("went on")
"""


def _run(
    code: str, *words: object, machine: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(FOLDER)}
    if machine is not None:
        env["STANDIN_MACHINE"] = str(machine)
    return subprocess.run(
        command,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_bounded_block_in_time_changes_nothing(request: pytest.FixtureRequest) -> None:
    # Ignored in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with bounded(PATIENCE_S, "adding"):
        total = 1 + 2
    assert total == 3
    with pytest.raises(ZeroDivisionError), bounded(PATIENCE_S, "dividing"):
        _ = 1 // 0
    with pytest.raises(KeyboardInterrupt):  # handled by Python again
        os.kill(os.getpid(), signal.SIGINT)


def test_start_timer_calls_unless_the_block_ended() -> None:
    called: list[int] = []
    rung = threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def ring(number: int) -> None:
        called.append(number)
        if number == 2:
            rung.set()

    with watchdog_module.start_timer(0.02, ring, 1):
        pass
    begin_s = time.monotonic()
    with watchdog_module.start_timer(0.05, ring, 2):
        assert rung.wait(PATIENCE_S)
    assert time.monotonic() - begin_s >= 0.05
    assert called == [2]


def test_bounded_overrun_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: dict[str, float] = {}

    @contextmanager
    def timer(after_s: float, function: Any, _argument: int) -> Iterator[None]:
        timers[function.__name__] = after_s
        yield

    monkeypatch.setattr(watchdog_module, "start_timer", timer)
    with bounded(PATIENCE_S, "opening the chip"):
        pass
    assert timers["setcontext"] == PATIENCE_S < timers["_exit"]


@contextmanager
def _with_full_pipe(delivery_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """A program out of time whose standard error takes nothing before it is read."""
    command = [sys.executable, "-c", FULL_PIPE, str(delivery_s)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"full\n"
        yield program


@pytest.mark.slow
def test_bounded_message_comes_before_the_end() -> None:
    with _with_full_pipe(3600) as program:
        time.sleep(1)
        assert program.stderr is not None
        assert b"whisper-hailo: sleeping " in program.stderr.read()
        assert program.wait(PATIENCE_S) == 6


@pytest.mark.slow
def test_bounded_ends_without_a_reader_of_the_message() -> None:
    with _with_full_pipe(0.1) as program:
        assert program.wait(PATIENCE_S) == 6


@pytest.mark.slow
def test_bounded_ends_a_call_that_holds_the_lock() -> None:
    name = r"100%s\n \udcff.hef"
    done = _run(HANG + f"with bounded(0.5, 'loading {name}'): hang()\nprint('went on')")
    assert done.returncode == 6
    assert done.stdout == "here\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith(r"whisper-hailo: loading 100%s \udcff.hef ")


@pytest.mark.slow
def test_bounded_call_back_after_the_message_ends() -> None:
    done = _run(
        HANG + "with bounded(0.5, 'sleeping'): time.sleep(0.55)\nprint('went on')"
    )
    assert (done.returncode, done.stdout) == (6, "")
    assert "whisper-hailo: sleeping " in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("scan", "opening the chip"),
        ("identify", "opening the chip"),
        ("open", "opening the chip"),
        ("load", "loading "),
        ("configure", "loading "),
        ("shutdown", "releasing the chip"),
        ("release", "releasing the chip"),
    ],
)
def test_bounded_ends_hangs_of_every_call(
    hefs: Hefs, hailo_directory: Path, tmp_path: Path, call: str, expected: str
) -> None:
    with_chip(tmp_path, {}, faults={call: {"0": "hang"}})
    done = _run(ENCODE, hefs.encoder, hailo_directory, expected, machine=tmp_path)
    assert done.returncode == 6, done.stderr
    assert done.stdout == ("(1, 100, 64)\n" if expected.startswith("releasing") else "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"whisper-hailo: {expected}")
    assert " 1 s;" in line


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[float, int]]:
    """Time and argument of each timer's call."""
    found: dict[str, tuple[float, int]] = {}

    @contextmanager
    def timer(after_s: float, function: Any, argument: int) -> Iterator[None]:
        found[function.__name__] = (after_s, argument)
        yield

    monkeypatch.setattr(watchdog_module, "start_timer", timer)
    return found


def test_bounded_has_two_timers(timers: dict[str, tuple[float, int]]) -> None:
    """The second is for a standard error that takes no message."""
    with bounded(2.5, "loading"):
        pass
    assert timers["setcontext"][0] == 2.5
    assert timers["_exit"][0] > 2.5
    assert timers["_exit"][1] == ExitCode.DEVICE


@pytest.mark.parametrize(
    ("took_s", "is_over"), [(2.25, False), (2.5, True), (3.0, True)]
)
def test_bounded_call_that_ends_late_does_not_return(
    timers: dict[str, tuple[float, int]],
    monkeypatch: pytest.MonkeyPatch,
    took_s: float,
    is_over: bool,
) -> None:
    """The late call waits for the end of the program."""
    now = iter([10.0, 10.0 + took_s])
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: next(now), sleep=slept.append)
    monkeypatch.setattr(watchdog_module, "time", clock)
    with bounded(2.5, "x"):
        pass
    assert bool(slept) is is_over
    assert all(seconds > timers["_exit"][0] - 2.5 for seconds in slept)


@pytest.mark.parametrize("fails", [False, True])
def test_start_timer_sets_seconds_and_nanoseconds_once(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """`timer_settime` takes an interval, which is none, and a time, each in two numbers."""
    calls: list[object] = []

    def create(clock: int, _event: object, timer_id: object) -> int:
        calls.append(clock)
        return int(fails)

    def settime(timer_id: object, flags: int, times: Any, before: object) -> None:
        calls.extend([flags, list(times)[:4], before])

    library = SimpleNamespace(
        timer_create=create,
        timer_settime=settime,
        timer_delete=lambda _: calls.append("deleted"),
    )
    monkeypatch.setattr(watchdog_module, "TIMERS", library)
    if fails:
        with (
            pytest.raises(OSError, match="timer"),
            watchdog_module.start_timer(1, None, 0),
        ):
            pass
        return
    with watchdog_module.start_timer(3.25, None, 0):
        assert calls == [time.CLOCK_MONOTONIC, 0, [0, 0, 3, 250_000_000], None]
    assert calls[-1] == "deleted"
