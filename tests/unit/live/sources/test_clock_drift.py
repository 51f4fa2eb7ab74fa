"""Time that is missing in sound: where something slept, not where the sound system is unsteady."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.live.sources.microphone import ClockDrift

BLOCK_S = 0.032


def missing(lag: ClockDrift, times: list[float]) -> list[float]:
    return [found for now_s in times if (found := lag.missing_s(BLOCK_S, now_s))]


def steady(begin_s: float, n_blocks: int, pace: float = 1.0) -> list[float]:
    return [begin_s + index * BLOCK_S * pace for index in range(n_blocks)]


def test_sound_at_its_own_pace_misses_nothing() -> None:
    """Clocks that differ by three in a thousand are more than a second apart by the end."""
    jitter = np.random.default_rng(0).uniform(0, 0.3, 12_000)
    for pace in (1.0, 1.003, 0.997):
        times = [t + j for t, j in zip(steady(50.0, 12_000, pace), jitter, strict=True)]
        assert missing(ClockDrift(), times) == []


def test_a_program_that_slept_misses_that_time_once() -> None:
    lag = ClockDrift()
    assert missing(lag, steady(50.0, 100)) == []
    found = missing(lag, steady(50.0 + 100 * BLOCK_S + 20.0, 1000))
    assert found == [pytest.approx(20.0, abs=0.01)]


def test_what_was_kept_meanwhile_is_not_missing() -> None:
    """Two seconds come at once behind a sleep of twenty."""
    lag = ClockDrift()
    missing(lag, steady(50.0, 100))
    now_s = 50.0 + 100 * BLOCK_S + 20.0
    kept = round(2.0 / BLOCK_S)
    assert missing(lag, [now_s + index * 1e-4 for index in range(kept)]) == []
    assert missing(lag, steady(now_s + 0.04, 100)) == [pytest.approx(18.0, abs=0.1)]


def test_what_was_kept_and_comes_little_by_little_is_not_missing() -> None:
    """As PulseAudio has it: at twice its pace, behind a second at its own."""
    lag = ClockDrift()
    missing(lag, steady(50.0, 100))
    now_s = 50.0 + 100 * BLOCK_S + 5.0
    assert missing(lag, steady(now_s, round(1.0 / BLOCK_S))) == []
    assert missing(lag, steady(now_s + 1.0, round(10.0 / BLOCK_S), 0.5)) == []
    assert missing(lag, steady(now_s + 6.0, 1000)) == []


def test_program_that_was_held_up_and_catches_up_misses_nothing() -> None:
    lag = ClockDrift()
    missing(lag, steady(50.0, 100))
    now_s = 50.0 + 100 * BLOCK_S + 3.0
    late = [now_s + index * 1e-4 for index in range(round(3.0 / BLOCK_S))]
    assert missing(lag, late) == []
    assert missing(lag, steady(now_s + BLOCK_S, 100)) == []


def told(*pieces: tuple[float, float]) -> list[float]:
    """What is missing before each of these pieces, by its length and when it came."""
    lag = ClockDrift()
    return [lag.missing_s(length_s, now_s) for length_s, now_s in pieces]


def test_a_second_that_does_not_come_within_two_is_missing() -> None:
    begin, late = (1.0, 10.0), (1.0, 12.0)
    assert told(begin, late, (1.875, 13.875), (0.125, 14.0)) == [0.0, 0.0, 0.0, 1.0]
    assert told(begin, late, (2.0, 14.0), (1.0, 15.0), (4.0, 19.0)) == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert told(begin, late, (2.0, 14.0), (1.0, 17.0), (2.0, 19.0)) == [0.0, 0.0, 1.0, 0.0, 2.0]
    assert told(begin, late, (2.0, 13.0), (1.0, 15.0)) == [0.0] * 4, "what came is forgotten"
    assert told(begin, (1.0, 11.875), (2.0, 13.875), (9.0, 22.875)) == [0.0] * 4


@pytest.mark.parametrize(("caught_up_s", "missing_s"), [(0.125, 1.875), (0.25, 0.0)])
def test_who_catches_up_is_waited_for(caught_up_s: float, missing_s: float) -> None:
    """Two seconds were missing at first; two seconds later it is a little less."""
    found = told((1.0, 10.0), (1.0, 13.0), (1.0 + caught_up_s, 14.0), (1.0, 15.0))
    assert found == [0.0, 0.0, 0.0, missing_s]


def test_a_clock_that_runs_otherwise_is_followed_slowly() -> None:
    lag = ClockDrift()
    lag.missing_s(1.0, 10.0)
    lag.missing_s(1.0, 11.5)
    assert lag.usual_s == pytest.approx(9.005)
    lag.missing_s(1.0, 11.505)
    assert lag.usual_s == pytest.approx(9.0)
