"""Waits that grow."""

from __future__ import annotations

from whisper_hailo.core.timing import Backoff


class Now:
    """A clock that is put forward."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def test_a_wait_doubles_up_to_half_a_minute_and_begins_anew() -> None:
    now = Now()
    wait = Backoff(now)
    assert wait.is_over
    for number, expected_s in enumerate([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0], start=1):
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


def test_what_fails_for_ever_is_waited_for_as_long_each_time() -> None:
    now = Now()
    wait = Backoff(now)
    wait.n_failures = 100_000  # 2 to the power of that is no number for a clock
    wait.fail()
    now.s += 29.875
    assert not wait.is_over
    now.s += 0.125
    assert wait.is_over
