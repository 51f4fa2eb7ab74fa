"""Workers of this machine, with stand-ins for their processes and for the reader."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fakes.batch_workers import (
    SETUP,
    Worker,
    a_task,
    dies_of,
    done,
    index_of,
    places,
    run,
    use,
    workers,
)
from whisper_hailo.batch import workers as engine
from whisper_hailo.batch.tasks import Task

__all__ = ["workers"]


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_run_tasks_does_each_task_once(workers: list[Worker]) -> None:
    tasks = [a_task(0), a_task(1), *(a_task(n, shard=2) for n in range(5))]
    outcomes = list(run([*tasks, a_task(0, shard=3)], 2))
    expected = [(0, 0), (0, 1), *((2, n) for n in range(5)), (3, 0)]
    assert places(outcomes) == expected
    assert places(done(task) for task in Worker.held) == expected
    assert 1 <= len(workers) <= 2
    assert all(worker.is_over for worker in workers)


def test_run_tasks_without_tasks_starts_no_worker(workers: list[Worker]) -> None:
    assert list(run([], 2)) == []
    assert workers == []


def test_run_tasks_keeps_workers_busy_and_reads_ahead(
    workers: list[Worker],
) -> None:
    """A reader that is faster than its workers fills no memory."""
    taken: list[int] = []

    def tasks() -> Iterator[Task]:
        for n in range(9):
            taken.append(n)
            yield a_task(n)

    Worker.may_answer.clear()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(run(tasks(), 3)))
    thread.start()
    until(lambda: len(taken) == 4)
    time.sleep(0.05)
    assert (len(taken), len(Worker.held), len(workers)) == (4, 3, 3)
    Worker.may_answer.set()
    thread.join(60)
    assert places(found) == [(0, n) for n in range(9)]
    assert len(workers) == 3


def test_run_tasks_yields_outcome_during_slow_read(
    workers: list[Worker],
) -> None:
    """Also while the hour after a short recording is read; slow reading is no end."""
    is_yielded = threading.Event()

    def tasks() -> Iterator[Task]:
        yield a_task(0)
        assert is_yielded.wait(60)
        yield a_task(1)

    seen = []
    for outcome in run(tasks(), 2):
        seen.append(index_of(outcome))
        is_yielded.set()
    assert seen == [0, 1]
    assert len(workers) == 1


def test_run_tasks_unexpected_read_error_ends_run(workers: list[Worker]) -> None:
    def tasks() -> Iterator[Task]:
        yield a_task(0)
        raise ValueError("unforeseen")

    with pytest.raises(ValueError, match="unforeseen"):
        list(run(tasks(), 1))
    until(lambda: all(worker.is_over for worker in workers))


def test_run_tasks_closed_early_stops_all(workers: list[Worker]) -> None:
    taken: list[int] = []

    def tasks() -> Iterator[Task]:
        for n in range(99):
            taken.append(n)
            yield a_task(n)

    def work(task: Task) -> object:
        if index_of(task):
            Worker.may_answer.clear()  # tasks that are with workers never end
        return done(task)

    use(work)
    before = set(threading.enumerate())
    outcomes = run(tasks(), 2)
    next(outcomes)
    threads = set(threading.enumerate()) - before
    outcomes.close()  # type: ignore[attr-defined]
    assert all(worker.is_over for worker in workers)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(taken) < 99


def test_worker_started_keeps_its_process(
    workers: list[Worker],
) -> None:
    worker = engine.Worker(SETUP)
    worker.start()
    assert len(workers) == 1
    for n in range(3):
        assert worker.do(a_task(n)) == done(a_task(n))
    (process,) = workers
    assert [index_of(task) for task in process.tasks] == [0, 1, 2]
    assert not process.is_over


def test_worker_after_failure_gets_new_process(workers: list[Worker]) -> None:
    worker = engine.Worker(SETUP)
    use(dies_of([0], times=1))
    for n in range(2):
        assert worker.do(a_task(n)) == done(a_task(n))
    assert [[index_of(task) for task in process.tasks] for process in workers] == [
        [0],
        [0, 1],
    ]


def test_worker_stopped_starts_no_process(workers: list[Worker]) -> None:
    worker = engine.Worker(SETUP)
    worker.stop()
    with pytest.raises(EOFError):
        worker.do(a_task(0))
    assert workers == []
