"""Stop-watches of stages."""

from __future__ import annotations

import pytest

from whisper_hailo.core import timing
from whisper_hailo.core.timing import Backoff, StageClock
from whisper_hailo.core.types import Timings


class Now:
    """A clock that is put forward."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def test_stage_clock_pause_is_excluded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = Now()
    monkeypatch.setattr(timing, "perf_counter", now)
    clock = StageClock()
    with clock.stage("total"), clock.stage("decode"):
        now.s += 0.5
        with clock.paused("decode", "total"):
            now.s += 2
    assert clock.timings() == Timings(decode_ms=500.0, total_ms=500.0)


def test_stage_clock_adds_times_of_failed_stages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = Now()
    monkeypatch.setattr(timing, "perf_counter", now)
    clock = StageClock()
    for _ in range(2):
        with clock.stage("encode"):
            now.s += 0.25

    def fail() -> None:
        with clock.stage("mel"):
            now.s += 0.125
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    clock.note("decode", 3.0)
    clock.note("decode", 4.0)
    assert clock.timings() == Timings(mel_ms=125.0, encode_ms=500.0, decode_ms=7.0)
    other = StageClock()
    other.note("load", 1.0)
    other.add(clock, 0.5)
    other.add(clock)
    assert other.timings() == Timings(
        load_ms=1.0, mel_ms=187.5, encode_ms=750.0, decode_ms=10.5
    )
    assert StageClock().timings() == Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_backoff_doubles_to_30_s_and_resets() -> None:
    now = Now()
    wait = Backoff(now)
    assert wait.is_over
    for number, expected_s in enumerate(
        [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0], start=1
    ):
        wait.fail()
        assert wait.n_failures == number
        now.s += expected_s - 0.125
        assert not wait.is_over
        now.s += 0.125
        assert wait.is_over
    wait.fail()
    wait.succeed()
    assert wait.is_over
    assert wait.n_failures == 0
    wait.fail()
    now.s += 0.5
    assert wait.is_over


def test_backoff_many_failures_stay_at_30_s() -> None:
    now = Now()
    wait = Backoff(now)
    wait.n_failures = 100_000  # 2 to the power of that is no number for a clock
    wait.fail()
    now.s += 29.875
    assert not wait.is_over
    now.s += 0.125
    assert wait.is_over
