"""The local engine, with stand-ins for its worker processes and for who reads."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any, Final, TypeAlias

import pytest

from whisper_hailo.batch import local
from whisper_hailo.batch.local import LocalEngine
from whisper_hailo.batch.records import Failure, Group, Item, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.worker import Setup
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import DeviceError, ModelError
from whisper_hailo.decoding.options import DecodingOptions

SETUP: Final = Setup({"model": "micro"}, DecodingOptions())

Deed: TypeAlias = Callable[[Task], object]
"""What a worker sends of a task; `None` is that it dies."""


class Worker:
    """In the place of a process: answers each task at once, as it is told to."""

    deed: Deed
    made: Final[list[Worker]] = []
    held: Final[list[Task]] = []
    waits = False
    """Whether answers wait for `release`."""

    def __init__(self, target: object, setup: object) -> None:
        assert (target, setup) == (local.work, SETUP)
        Worker.made.append(self)
        self.pipe, self._theirs = multiprocessing.Pipe()
        self.tasks: list[Task] = []
        self.is_over = False
        self.died_of = "SIGKILL"

    def send(self, task: Task) -> None:
        self.tasks.append(task)
        Worker.held.append(task)
        if not Worker.waits:
            self.release()

    def release(self) -> None:
        answer = type(self).deed(self.tasks[-1])
        if answer is None:
            self._theirs.close()
        else:
            self._theirs.send(answer)

    def receive(self) -> object:
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self.is_over = True
        self.pipe.close()
        self._theirs.close()


def done(task: Task) -> Outcome:
    results = tuple(PieceResult(piece.item, piece.start_s + 1.0, "en") for piece in task.pieces)
    return Outcome(task.group, task.index, task.is_last, results, 0.5, 2.0)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    monkeypatch.setattr(Worker, "made", [])
    monkeypatch.setattr(Worker, "held", [])
    monkeypatch.setattr(Worker, "waits", False)
    monkeypatch.setattr(Worker, "deed", staticmethod(done), raising=False)
    monkeypatch.setattr(local, "Child", Worker)
    yield Worker.made
    for worker in Worker.made:
        worker.end()


def dies_of(items: Iterable[int], times: int = 99) -> Deed:
    """A deed that no worker survives, so many times for each item."""
    left = Counter(dict.fromkeys(items, times))

    def deed(task: Task) -> object:
        for piece in task.pieces:
            if left[piece.item] > 0:
                left[piece.item] -= 1
                return None
        return done(task)

    return deed


def use(deed: Deed) -> None:
    Worker.deed = staticmethod(deed)  # type: ignore[assignment]


def a_task(index: int, n_pieces: int = 1, *, group: int = 0, last: bool = False) -> Task:
    """Its pieces are of items `10 * index` and so on."""
    pieces = tuple(Piece(10 * index + n, float(n)) for n in range(n_pieces))
    return Task(group, index, pieces, last)


class Reader(Closing):
    """In the place of the one that reads: hands out what the groups' numbers say."""

    tasks_of: Callable[[Group], Iterable[Task]]
    closed = 0

    def open(self) -> Reader:
        return self

    def tasks(self, group: Group) -> Iterator[Task]:
        yield from type(self).tasks_of(group)

    def close(self) -> None:
        Reader.closed += 1


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Group]]:
    monkeypatch.setattr(local, "GroupReader", Reader)
    monkeypatch.setattr(Reader, "closed", 0)

    def groups(*tasks: list[Task]) -> list[Group]:
        """Groups of these tasks."""
        monkeypatch.setattr(
            Reader, "tasks_of", staticmethod(lambda group: tasks[group.index]), raising=False
        )
        return [Group(n, ()) for n in range(len(tasks))]

    return groups


def places(outcomes: Iterable[Outcome]) -> list[tuple[int, int]]:
    return sorted((one.group, one.index) for one in outcomes)


def failures(outcome: Outcome) -> list[str]:
    return [one.failure.kind if one.failure else "" for one in outcome.results]


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


def test_so_many_workers_are_busy_and_no_more(workers: list[Worker], read: Any) -> None:
    """All finish together, some looks after there are three of them, or all that there will be."""
    Worker.waits = True
    groups = read([a_task(n) for n in range(7)])
    engine = LocalEngine(SETUP, 3)
    collect, seen = engine._collect, []

    def collected() -> Iterator[Outcome]:
        seen.append(len(engine._busy))
        if min(seen[-3:]) >= 3 or len(Worker.held) == 7:
            for worker in engine._busy:
                worker.release()  # type: ignore[attr-defined]
        yield from collect()

    engine._collect = collected  # type: ignore[method-assign,assignment]
    assert len(list(engine.run(groups))) == 7
    assert max(seen) == 3
    assert len(workers) == 3


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


def test_a_worker_that_is_killed_costs_nothing(workers: list[Worker]) -> None:
    use(dies_of([0], times=2))
    outcome = LocalEngine(SETUP, 1).do(a_task(0, 2))
    assert outcome == done(a_task(0, 2))
    assert [worker.is_over for worker in workers] == [True, True, False]
    assert [len(worker.tasks[0].pieces) for worker in workers] == [2, 2, 2]


def test_of_a_task_that_kills_its_workers_one_piece_is_to_blame(workers: list[Worker]) -> None:
    use(dies_of([1]))
    outcome = LocalEngine(SETUP, 1).do(a_task(0, 3, last=True))
    assert (outcome.group, outcome.index, outcome.is_last) == (0, 0, True)
    assert failures(outcome) == ["", "Crash", ""]
    assert [one.item for one in outcome.results] == [0, 1, 2]
    assert [one.end_s for one in outcome.results] == [1.0, 1.0, 3.0]
    # Three workers for all pieces, then three for the one.
    assert sum(worker.is_over for worker in workers) == 6
    assert [len(task.pieces) for task in Worker.held] == [3] * 3 + [1] * 5
    assert (outcome.took_s, outcome.audio_s) == (1.0, 4.0)  # of the two that were done


def test_pieces_one_by_one_come_in_order_however_they_finish(workers: list[Worker]) -> None:
    """The first dies twice before it is done, so that the others are done before it."""
    use(dies_of([0], times=5))
    outcome = LocalEngine(SETUP, 1).do(a_task(0, 3))
    assert failures(outcome) == ["", "", ""]
    assert [one.item for one in outcome.results] == [0, 1, 2]
    assert [one.end_s for one in outcome.results] == [1.0, 2.0, 3.0]
    assert (outcome.took_s, outcome.audio_s) == (1.5, 6.0)
    assert sum(worker.is_over for worker in workers) == 5


def test_a_task_of_one_piece_is_given_up_after_three_workers(workers: list[Worker]) -> None:
    use(dies_of([0]))
    outcome = LocalEngine(SETUP, 1).do(Task(4, 5, (Piece(0, 1.5),), is_last=True))
    expected = Failure("Crash", "3 workers died of it (SIGKILL); report it")
    assert outcome == Outcome(4, 5, True, (PieceResult(0, 1.5, failure=expected),))
    assert [worker.is_over for worker in workers] == [True] * 3


def test_a_task_that_kills_its_workers_stops_no_other(workers: list[Worker], read: Any) -> None:
    use(dies_of([10, 31]))
    groups = read([a_task(0), a_task(1), a_task(2), a_task(3, 3), a_task(4, last=True)])
    outcomes = {one.index: one for one in LocalEngine(SETUP, 2).run(groups)}
    assert sorted(outcomes) == [0, 1, 2, 3, 4]
    assert {n: failures(one) for n, one in outcomes.items()} == {
        0: [""], 1: ["Crash"], 2: [""], 3: ["", "Crash", ""], 4: [""],
    }  # fmt: skip
    assert outcomes[4].is_last
    assert all(worker.is_over for worker in workers)
    assert len(outcomes) == 5


def test_the_last_task_of_all_is_tried_again_too(workers: list[Worker], read: Any) -> None:
    use(dies_of([0], times=2))
    (outcome,) = LocalEngine(SETUP, 2).run(read([a_task(0)]))
    assert failures(outcome) == [""]
    assert len(workers) == 3


def test_a_device_that_is_gone_for_a_moment_costs_a_try(workers: list[Worker]) -> None:
    answers: list[object] = [DeviceError("busy"), DeviceError("busy")]
    use(lambda task: answers.pop() if answers else done(task))
    assert LocalEngine(SETUP, 1).do(a_task(0)) == done(a_task(0))
    assert [worker.is_over for worker in workers] == [True, True, False]


def test_a_device_that_stays_away_ends_the_run(workers: list[Worker], read: Any) -> None:
    use(lambda _: DeviceError("gone"))
    with pytest.raises(DeviceError, match="gone"):
        list(LocalEngine(SETUP, 1).run(read([a_task(0), a_task(1)])))
    assert len(Worker.held) == 3
    assert all(worker.is_over for worker in workers)


def test_a_model_that_cannot_be_had_ends_the_run_at_once(workers: list[Worker], read: Any) -> None:
    use(lambda _: ModelError("no model"))
    with pytest.raises(ModelError, match="no model"):
        list(LocalEngine(SETUP, 1).run(read([a_task(0)])))
    assert [worker.is_over for worker in workers] == [True]


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
    groups = read([a_task(n) for n in range(9)])
    engine = LocalEngine(SETUP, 2)
    engine.prepare()
    before = set(threading.enumerate())
    outcomes = engine.run(groups)
    next(outcomes)
    (thread,) = set(threading.enumerate()) - before
    outcomes.close()  # type: ignore[attr-defined]
    assert all(worker.is_over for worker in workers)
    thread.join(5.0)
    assert not thread.is_alive()
    assert Reader.closed == 1
    assert len(Worker.held) < 9


def test_a_worker_that_was_prepared_takes_the_first_task_and_stays(workers: list[Worker]) -> None:
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
    coming: local.Coming = Queue()
    local._read_ahead(groups, coming, threading.Event())
    tasks = [coming.get_nowait() for _ in range(coming.qsize())]
    assert [task and (task.group, task.index) for task in tasks] == [  # type: ignore[union-attr]
        (0, 0), (0, 1), (1, 0), None,
    ]  # fmt: skip

    def damaged() -> Iterator[Group]:
        yield groups[1]
        raise ModelError("damaged")

    local._read_ahead(damaged(), coming, threading.Event())
    task, error = (coming.get_nowait() for _ in range(coming.qsize()))
    assert isinstance(task, Task)
    assert isinstance(error, ModelError)
    stopped = threading.Event()
    stopped.set()
    local._read_ahead(groups, coming, stopped)
    assert coming.empty()
    assert Reader.closed == 3


class Dead(Worker):
    """A worker that died before it was sent anything."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self._theirs.close()

    def send(self, task: Task) -> None:
        Worker.held.append(task)
        raise EOFError


@pytest.mark.slow
def test_recordings_whose_workers_die_before_they_hear_of_them_fail(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local, "Child", Dead)
    items = tuple(Item(name, str(tmp_path / f"{name}.wav")) for name in "ab")
    (outcome,) = LocalEngine(SETUP, 2).run([Group(0, items)])
    assert failures(outcome) == ["Crash", "Crash"]
    assert len(workers) == 9  # three for both, then three for each


def test_a_task_whose_workers_die_before_they_hear_of_it_fails(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "Child", Dead)
    (result,) = LocalEngine(SETUP, 1).do(Task(0, 0, (Piece(0, 1.5),), is_last=True)).results
    assert result.failure is not None
    assert result.failure.message == "3 workers died of it (SIGKILL); report it"
    assert len(workers) == 3
