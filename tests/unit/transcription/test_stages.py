"""Calls that run ahead of their results: which thread they take, and what is left of them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from whisper_hailo.core.errors import DeviceError
from whisper_hailo.transcription.stages import Prefetch

PATIENCE_S = 20.0
"""Ends only what hangs."""


def where(_argument: int) -> str:
    return threading.current_thread().name


def test_a_call_alone_runs_where_it_is_asked_for() -> None:
    with Prefetch(where) as ahead:
        assert ahead.begin(1).result() == threading.current_thread().name
        assert ahead.begin(2).result() == threading.current_thread().name


def test_call_with_another_behind_it_runs_in_the_thread() -> None:
    with Prefetch(where) as ahead:
        first, second = ahead.begin(1), ahead.begin(2)
        assert first.coming is not None
        assert second.coming is not None
        assert first.result() == second.result() != threading.current_thread().name


def test_one_that_shall_run_now_waits_for_no_other() -> None:
    with Prefetch(where) as ahead:
        assert ahead.begin(1, now=True).result() != threading.current_thread().name


def test_each_call_runs_once_and_in_its_turn() -> None:
    ran: list[int] = []
    with Prefetch(ran.append) as ahead:
        begun = [ahead.begin(1, now=True), *(ahead.begin(n) for n in (2, 3)), ahead.begin(4)]
        for one in begun:
            one.result()
    assert ran == [1, 2, 3, 4]


def test_one_that_is_apart_stands_in_no_row() -> None:
    with Prefetch(where) as ahead:
        first = ahead.begin(1)
        apart = ahead.begin(2, apart=True)
        assert (first.coming, apart.coming) == (None, None)
        assert apart.result() == threading.current_thread().name
        assert first.result() == threading.current_thread().name


def test_switched_off_every_call_runs_where_it_is_asked_for() -> None:
    with Prefetch(where, lambda _: lambda: "begun", enabled=False) as ahead:
        calls = [ahead.begin(n, now=True) for n in range(3)]
        assert {call.result() for call in calls} == {threading.current_thread().name}


def test_asynchronous_call_begins_at_once_without_a_thread() -> None:
    begun: list[int] = []

    def start(argument: int) -> object:
        begun.append(argument)
        return lambda: 10 * argument

    with Prefetch(lambda _: -1, start) as ahead:  # type: ignore[arg-type]
        calls = [ahead.begin(n) for n in (1, 2)]
        assert begun == [1, 2]
        assert [call.result() for call in calls] == [10, 20]


def test_closing_waits_for_what_runs_and_drops_what_does_not_yet() -> None:
    """The first call runs until the second one is dropped."""
    dropped, done = threading.Event(), []

    def work(argument: int) -> int:
        assert dropped.wait(PATIENCE_S), "what had not begun was kept"
        done.append(argument)
        return argument

    ahead = Prefetch(work)
    first, second = ahead.begin(1), ahead.begin(2)
    assert second.coming is not None
    second.coming.add_done_callback(lambda _: dropped.set())
    ahead.close()
    assert done == [1]
    assert first.result() == 1
    assert second.coming.cancelled()


def test_errors_come_when_they_are_asked_for() -> None:
    def fail(argument: int) -> int:
        raise ValueError(str(argument))

    with Prefetch(fail) as ahead:
        first, second = ahead.begin(1), ahead.begin(2)
        for call, text in ((second, "2"), (first, "1")):
            with pytest.raises(ValueError, match=text):
                call.result()


def test_results_come_in_the_order_they_are_asked_for() -> None:
    with Prefetch(lambda x: 10 // x) as ahead:
        two, zero, five = (ahead.begin(x) for x in (2, 0, 5))
        assert five.result() == 2
        with pytest.raises(ZeroDivisionError):
            zero.result()
        assert two.result() == 5


def test_what_cannot_even_begin_is_told_when_its_turn_comes() -> None:
    def start(_x: int) -> Any:
        raise DeviceError("the chip went away; try again")

    with Prefetch(lambda x: x, start) as ahead:
        waiting = ahead.begin(1)
        with pytest.raises(DeviceError):
            waiting.result()
