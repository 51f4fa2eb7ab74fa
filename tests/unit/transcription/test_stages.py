"""Calls that run ahead of their results: which thread they take, and what is left of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from typing import Any

import pytest

from whisper_hailo.core.errors import DeviceError
from whisper_hailo.transcription.stages import Prefetch

PATIENCE_S = 20.0
"""Ends only what hangs."""


def where(_argument: int) -> str:
    return threading.current_thread().name


def in_one_step(function: Callable[[Any], Any]) -> Any:
    """Return an encoder of `Prefetch` that is not interrupted."""

    def encode(argument: object) -> Generator[None, None, Any]:
        yield from ()
        return function(argument)

    return encode


def test_single_call_runs_in_the_caller_s_thread() -> None:
    with Prefetch(in_one_step(where)) as ahead:
        assert ahead.begin(1).result() == threading.current_thread().name
        assert ahead.begin(2).result() == threading.current_thread().name


def test_call_followed_by_another_runs_in_the_thread() -> None:
    with Prefetch(in_one_step(where)) as ahead:
        first = ahead.begin(1)
        second = ahead.begin(2)
        assert first.coming is not None
        assert second.coming is not None
        assert first.result() == second.result() != threading.current_thread().name


def test_call_with_now_runs_in_the_thread() -> None:
    with Prefetch(in_one_step(where)) as ahead:
        assert ahead.begin(1, now=True).result() != threading.current_thread().name


def test_calls_run_once_in_order() -> None:
    ran: list[int] = []
    with Prefetch(in_one_step(ran.append)) as ahead:
        begun = [
            ahead.begin(1, now=True),
            *(ahead.begin(n) for n in (2, 3)),
            ahead.begin(4),
        ]
        for call in begun:
            call.result()
    assert ran == [1, 2, 3, 4]


def test_call_apart_runs_in_the_caller_s_thread() -> None:
    with Prefetch(in_one_step(where)) as ahead:
        first = ahead.begin(1)
        call = ahead.begin(2, apart=True)
        assert first.coming is None
        assert call.coming is None
        assert call.result() == threading.current_thread().name
        assert first.result() == threading.current_thread().name


def test_disabled_prefetch_runs_in_the_caller_s_thread() -> None:
    with Prefetch(
        in_one_step(where), lambda _: lambda: "begun", enabled=False
    ) as ahead:
        calls = [ahead.begin(n, now=True) for n in range(3)]
        assert {call.result() for call in calls} == {threading.current_thread().name}


def test_asynchronous_call_begins_at_once() -> None:
    begun: list[int] = []

    def start(argument: int) -> object:
        begun.append(argument)
        return lambda: 10 * argument

    with Prefetch(in_one_step(lambda _: -1), start) as ahead:  # type: ignore[arg-type]
        calls = [ahead.begin(n) for n in (1, 2)]
        assert begun == [1, 2]
        assert [call.result() for call in calls] == [10, 20]


def test_close_waits_for_running_and_drops_pending_calls() -> None:
    """The first call runs until the second one is dropped."""
    begun = threading.Event()
    dropped = threading.Event()
    done = []

    def work(argument: int) -> int:
        begun.set()
        assert dropped.wait(PATIENCE_S), "what had not begun was kept"
        done.append(argument)
        return argument

    ahead = Prefetch(in_one_step(work))
    first = ahead.begin(1)
    second = ahead.begin(2)
    assert second.coming is not None
    second.coming.add_done_callback(lambda _: dropped.set())
    assert begun.wait(PATIENCE_S)
    ahead.close()
    assert done == [1]
    assert first.result() == 1
    assert second.coming.cancelled()


@pytest.mark.parametrize("is_paused", [False, True])
def test_close_ends_a_running_call_between_windows(is_paused: bool) -> None:
    begun: list[int] = []
    in_first = threading.Event()
    may_end = threading.Event()

    def encode(n_windows: int) -> Generator[None, None, int]:
        for n in range(n_windows):
            begun.append(n)
            in_first.set()
            assert may_end.wait(PATIENCE_S)
            yield
        return n_windows

    ahead = Prefetch(encode)  # type: ignore[arg-type]
    call = ahead.begin(2, now=True)  # type: ignore[arg-type]
    assert in_first.wait(PATIENCE_S)
    closing = threading.Thread(target=ahead.close)
    with ahead.paused() if is_paused else nullcontext():
        closing.start()
        while not ahead._is_closed.is_set():
            time.sleep(0.001)
        may_end.set()
        closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert begun == [0]
    with pytest.raises(CancelledError):
        call.result()


def test_paused_thread_begins_no_window() -> None:
    begun: list[int] = []
    in_first = threading.Event()
    may_end = threading.Event()

    def encode(n_windows: int) -> Generator[None, None, int]:
        for n in range(n_windows):
            begun.append(n)
            in_first.set()
            assert may_end.wait(PATIENCE_S)
            yield
        return n_windows

    with Prefetch(encode) as ahead:  # type: ignore[arg-type]
        call = ahead.begin(2, now=True)  # type: ignore[arg-type]
        assert in_first.wait(PATIENCE_S)
        with ahead.paused():
            with ahead.paused():
                may_end.set()
            # Nothing says that a thread does nothing; a moment shows most that does.
            time.sleep(0.05)
            assert begun == [0]
        assert call.result() == 2
    assert begun == [0, 1]


def test_errors_are_raised_by_result() -> None:
    def fail(argument: int) -> int:
        raise ValueError(str(argument))

    with Prefetch(in_one_step(fail)) as ahead:
        first = ahead.begin(1)
        second = ahead.begin(2)
        for call, text in ((second, "2"), (first, "1")):
            with pytest.raises(ValueError, match=text):
                call.result()


def test_results_come_in_any_order() -> None:
    with Prefetch(in_one_step(lambda x: 10 // x)) as ahead:
        two, zero, five = (ahead.begin(x) for x in (2, 0, 5))
        assert five.result() == 2
        with pytest.raises(ZeroDivisionError):
            zero.result()
        assert two.result() == 5


def test_failed_start_is_raised_by_result() -> None:
    def start(_x: int) -> Any:
        raise DeviceError("the chip went away; try again")

    with Prefetch(in_one_step(lambda x: x), start) as ahead:
        waiting = ahead.begin(1)
        with pytest.raises(DeviceError):
            waiting.result()
