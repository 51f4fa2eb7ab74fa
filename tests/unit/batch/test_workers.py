"""The local engine, with stand-ins for its worker processes and for who reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest

from tests.unit.batch.workers import (
    SETUP,
    Reader,
    Worker,
    a_task,
    dies_of,
    done,
    places,
    read,
    use,
    workers,
)
from whisper_hailo.batch import workers as engine
from whisper_hailo.batch.manifest import Group, Task
from whisper_hailo.batch.workers import LocalEngine
from whisper_hailo.core.errors import ModelError

__all__ = ["read", "workers"]


def test_every_task_is_done_once(workers: list[Worker], read: Any) -> None:
    groups = read(
        [a_task(0), a_task(1)], [], [a_task(n, group=2) for n in range(5)], [a_task(0, group=3)]
    )
    outcomes = list(LocalEngine(SETUP, 2).run(groups))
    expected = [(0, 0), (0, 1), *((2, n) for n in range(5)), (3, 0)]
    assert places(outcomes) == expected
    assert places(done(task) for task in Worker.held) == expected
    assert 1 <= len(workers) <= 2
    assert all(worker.is_over for worker in workers)


def test_of_no_groups_no_worker_begins(workers: list[Worker], read: Any) -> None:
    assert list(LocalEngine(SETUP, 2).run(read())) == []
    assert workers == []


def answer_when(monkeypatch: pytest.MonkeyPatch, may_answer: Callable[[int], bool]) -> None:
    """Workers answer at a look at them when this says so of the number of busy ones."""
    wait = engine.wait

    def look(pipes: list[Any], timeout: float | None) -> list[Any]:
        if may_answer(len(pipes)):
            for worker in Worker.made:
                if worker.pipe in pipes:
                    worker.release()
        return wait(pipes, timeout)

    monkeypatch.setattr(Worker, "waits", True)
    monkeypatch.setattr(engine, "wait", look)


def test_so_many_workers_are_busy_and_no_more(
    workers: list[Worker], read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All finish together, some looks after there are three of them, or all that there will be."""
    seen: list[int] = []

    def may_answer(n_busy: int) -> bool:
        seen.append(n_busy)
        return min(seen[-3:]) >= 3 or len(Worker.held) == 7

    answer_when(monkeypatch, may_answer)
    groups = read([a_task(n) for n in range(7)])
    assert len(list(LocalEngine(SETUP, 3).run(groups))) == 7
    assert max(seen) == 3
    assert len(workers) == 3


def test_what_is_done_is_told_while_the_next_is_still_being_read(
    workers: list[Worker], read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an hour's recording behind a short one, too; and reading that takes long is no end."""
    told = threading.Event()

    def tasks(group: Group) -> Iterator[Task]:
        yield a_task(0, group=group.index)
        assert told.wait(60)
        yield a_task(1, group=group.index)

    looks = 0

    def may_answer(n_busy: int) -> bool:
        """The first is done when nothing was there for the second worker, if only once."""
        nonlocal looks
        looks += bool(n_busy)
        return looks > 1

    answer_when(monkeypatch, may_answer)
    groups = read([])
    Reader.tasks_of = staticmethod(tasks)  # type: ignore[assignment]
    seen = []
    for outcome in LocalEngine(SETUP, 2).run([*groups]):
        seen.append(outcome.index)
        told.set()
    assert seen == [0, 1]
    assert len(workers) == 1


@pytest.mark.parametrize("deaths", [0, 2])
def test_what_is_under_way_when_all_is_read_is_waited_for(
    workers: list[Worker], read: Any, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    """Also where its workers die then."""
    before, looks = set(threading.enumerate()), 0

    def may_answer(n_busy: int) -> bool:
        """The reading thread has ended: two looks later its last word was taken, too."""
        nonlocal looks
        looks += set(threading.enumerate()) <= before
        return looks > 2

    answer_when(monkeypatch, may_answer)
    use(dies_of([0], times=deaths))
    groups = read([a_task(0, last=True)])
    assert list(LocalEngine(SETUP, 2).run(groups)) == [done(a_task(0, last=True))]
    assert len(workers) == 1 + deaths


def test_a_task_is_read_ahead_and_no_more(workers: list[Worker], read: Any) -> None:
    """Of a reader that is quicker than its workers no more than this is ever in memory."""
    taken: list[int] = []

    def tasks(group: Group) -> Iterator[Task]:
        for n in range(9):
            taken.append(n)
            yield a_task(n, group=group.index)

    groups = read([])
    Reader.tasks_of = staticmethod(tasks)  # type: ignore[assignment]
    outcomes = LocalEngine(SETUP, 1).run([*groups])
    ahead = [len(taken) - n for n, _ in enumerate(outcomes, start=1)]
    assert len(ahead) == 9
    # One with the worker, one that waits, one that is read: no more than two of them not done.
    assert max(ahead) <= 2 + 1
    assert len(workers) == 1


def test_what_nobody_foresaw_in_reading_ends_the_run(workers: list[Worker], read: Any) -> None:
    def tasks(_: Group) -> Iterator[Task]:
        yield a_task(0)
        raise ValueError("unforeseen")

    read([])
    Reader.tasks_of = staticmethod(tasks)  # type: ignore[assignment]
    outcomes = []
    with pytest.raises(ValueError, match="unforeseen"):
        outcomes += LocalEngine(SETUP, 1).run([Group(0, ())])
    assert all(worker.is_over for worker in workers)
    assert Reader.closed == 1


def test_who_stops_taking_ends_workers_and_reading(workers: list[Worker], read: Any) -> None:
    taken: list[int] = []
    is_ahead = threading.Event()

    def tasks(_: Group) -> Iterator[Task]:
        for n in range(9):
            taken.append(n)
            if n == 3:  # of the others one or two are with workers, and one waits
                is_ahead.set()
            yield a_task(n)

    groups = read([])
    Reader.tasks_of = staticmethod(tasks)  # type: ignore[assignment]
    engine = LocalEngine(SETUP, 2)
    engine.prepare()
    before = set(threading.enumerate())
    outcomes = engine.run(groups)
    next(outcomes)
    (thread,) = set(threading.enumerate()) - before
    if len(Worker.held) < 2:
        next(outcomes)
    assert is_ahead.wait(60)
    outcomes.close()  # type: ignore[attr-defined]
    assert all(worker.is_over for worker in workers)
    thread.join(60)
    assert not thread.is_alive()
    assert Reader.closed == 1
    assert len(Worker.held) < 9
    assert len(taken) < 9


def test_worker_that_was_prepared_takes_first_task_and_stays(workers: list[Worker]) -> None:
    engine = LocalEngine(SETUP, 1)
    engine.prepare()
    assert len(workers) == 1
    for n in range(3):
        assert engine.do(a_task(n)) == done(a_task(n))
    (worker,) = workers
    assert [task.index for task in worker.tasks] == [0, 1, 2]
    assert not worker.is_over


def test_a_worker_that_failed_is_none_for_the_next_task(workers: list[Worker]) -> None:
    engine = LocalEngine(SETUP, 1)
    use(dies_of([0], times=1))
    for n in range(2):
        assert engine.do(a_task(n)) == done(a_task(n))
    assert [[task.index for task in worker.tasks] for worker in workers] == [[0], [0, 1]]


def test_reading_ends_with_a_word_or_an_error(read: Any) -> None:
    groups = read([a_task(0), a_task(1)], [a_task(0, group=1)])
    coming: engine.Coming = Queue()
    engine.read_tasks_ahead(groups, coming, threading.Event())
    tasks = [coming.get_nowait() for _ in range(coming.qsize())]
    assert [task and (task.group, task.index) for task in tasks] == [  # type: ignore[union-attr]
        (0, 0), (0, 1), (1, 0), None,
    ]  # fmt: skip

    def damaged() -> Iterator[Group]:
        yield groups[1]
        raise ModelError("damaged")

    engine.read_tasks_ahead(damaged(), coming, threading.Event())
    task, error = (coming.get_nowait() for _ in range(coming.qsize()))
    assert isinstance(task, Task)
    assert isinstance(error, ModelError)
    stopped = threading.Event()
    stopped.set()
    engine.read_tasks_ahead(groups, coming, stopped)
    assert coming.empty()
    assert Reader.closed == 3
