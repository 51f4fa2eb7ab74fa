"""Timers that end a call that hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from whisper_hailo.backends.hailo import watchdog as watchdog_module
from whisper_hailo.backends.hailo.watchdog import bounded
from whisper_hailo.core.errors import ExitCode


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
