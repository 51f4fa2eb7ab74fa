"""Stand-ins for worker processes and for who reads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import pytest

from whisper_hailo.batch import workers as engine
from whisper_hailo.batch.tasks import Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.workers import Setup
from whisper_hailo.decoding.options import DecodingOptions

SETUP: Final = Setup({"model": "micro"}, DecodingOptions())


Deed: TypeAlias = Callable[[Task], object]
"""What a worker says to a task; `None` is that it dies."""


class Worker:
    """In the place of a process: answers each task as it is told to.

    Attributes:
        held: all tasks that any was given.
        may_answer: answers wait for it.
    """

    deed: Deed
    made: Final[list[Worker]] = []
    held: Final[list[Task]] = []
    may_answer = threading.Event()

    def __init__(self, setup: object) -> None:
        assert setup == SETUP
        Worker.made.append(self)
        self.tasks: list[Task] = []
        self.is_over = False
        self.died_of = "SIGKILL"

    def do(self, task: Task) -> object:
        self.tasks.append(task)
        Worker.held.append(task)
        while not (Worker.may_answer.wait(0.01) or self.is_over):
            pass
        answer = None if self.is_over else type(self).deed(task)
        if answer is None:
            raise EOFError
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        self.is_over = True


def done(task: Task) -> Outcome:
    results = tuple(
        PieceResult(
            piece.item, piece.start_s, piece.n_pieces, piece.start_s + 1.0, "en"
        )
        for piece in task.pieces
    )
    return Outcome(task.shard, results, 0.5, 2.0)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    monkeypatch.setattr(Worker, "made", [])
    monkeypatch.setattr(Worker, "held", [])
    monkeypatch.setattr(Worker, "may_answer", threading.Event())
    monkeypatch.setattr(Worker, "deed", staticmethod(done), raising=False)
    monkeypatch.setattr(engine, "Child", Worker)
    Worker.may_answer.set()
    before = set(threading.enumerate())
    yield Worker.made
    for worker in Worker.made:
        worker.kill()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


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


def run(tasks: Iterable[Task], n_workers: int) -> Iterator[Outcome]:
    """Outcomes of tasks, by workers that end with them."""
    made = [engine.Worker(SETUP) for _ in range(n_workers)]
    try:
        yield from engine.run_tasks(made, iter(tasks))
    finally:
        for worker in made:
            worker.stop()


def use(deed: Deed) -> None:
    Worker.deed = staticmethod(deed)


def a_task(index: int, n_pieces: int = 1, *, shard: int = 0) -> Task:
    """Its pieces are of items `10 * index` and so on."""
    pieces = tuple(Piece(10 * index + n, float(n), 1) for n in range(n_pieces))
    return Task(shard, pieces)


def index_of(task: Task | Outcome) -> int:
    """The number with which a task was made."""
    (item, _), *_ = task.key
    return item // 10


def places(outcomes: Iterable[Outcome]) -> list[tuple[int, int]]:
    return sorted((one.shard, index_of(one)) for one in outcomes)


def failures(outcome: Outcome) -> list[str]:
    return [one.failure.kind if one.failure else "" for one in outcome.results]
