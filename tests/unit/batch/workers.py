"""Stand-ins for worker processes and for who reads."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import pytest

from whisper_hailo.batch import workers as engine
from whisper_hailo.batch.manifest import Group, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.workers import Setup
from whisper_hailo.core.protocols import Closing
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
        assert (target, setup) == (engine.run_worker, SETUP)
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
    monkeypatch.setattr(engine, "Child", Worker)
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
    monkeypatch.setattr(engine, "GroupReader", Reader)
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
