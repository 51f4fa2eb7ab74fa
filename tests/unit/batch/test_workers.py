"""Workers of this machine and their processes, both with stand-ins, and retries."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest

from tests.fakes.batch_workers import (
    SETUP,
    Worker,
    a_task,
    dies_of,
    done,
    failures,
    index_of,
    places,
    run,
    use,
    workers,
)
from whisper_hailo.batch import workers as engine
from whisper_hailo.batch.tasks import Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.workers import Child
from whisper_hailo.core.errors import DeviceError, ModelError

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


class Process:
    """A stand-in for a process, whose exit code a test sets."""

    made: Process

    def __init__(self, *, target: Any, args: tuple[Any, ...], daemon: bool) -> None:
        Process.made = self
        self.target = target
        self.args = args
        self.daemon = daemon
        self.exitcode: int | None = None
        self.did: list[str] = []

    def start(self) -> None:
        self.theirs = self.args[0]
        # As the system does: what the process has open is its own.
        self.theirs = Connection(_copy(self.theirs.fileno()))
        self.did.append("start")
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def kill(self) -> None:
        self.did.append("kill")
        self.exitcode = -signal.SIGKILL

    def join(self, timeout: float | None = None) -> None:
        # A process that the system cannot end must not be waited for.
        assert timeout is not None
        self.did.append("join")


def _copy(number: int) -> int:
    return os.dup(number)


class Context:
    """A stand-in for a context of `multiprocessing`."""

    Process = Process
    Pipe = staticmethod(multiprocessing.Pipe)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Any:
    methods: list[str] = []

    def get_context(method: str) -> type[Context]:
        methods.append(method)
        return Context

    monkeypatch.setattr(multiprocessing, "get_context", get_context)
    yield Child(SETUP)
    assert methods == ["spawn"]
    Process.made.theirs.close()


TASK = Task(0, ())


def test_child_starts_as_daemon_with_sigint_blocked(child: Child) -> None:
    process = Process.made
    assert process.did == ["start"]
    assert process.daemon
    assert process.target is engine.run_worker
    assert signal.SIGINT in process.blocked, "Ctrl-C is its parent's affair"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert process.args[1] is SETUP
    outcome = Outcome(0, ())
    process.theirs.send(outcome)
    assert child.do(TASK) == outcome
    assert process.theirs.recv() == TASK


def test_child_do_raises_error_of_process(child: Child) -> None:
    Process.made.theirs.send(ModelError("no model"))
    with pytest.raises(ModelError, match="no model"):
        child.do(TASK)


def test_child_do_on_dead_process_raises_its_error(child: Child) -> None:
    """A large task cannot be sent to a process that is gone; its message is still there."""
    Process.made.theirs.send(ModelError("the chip is busy"))
    Process.made.theirs.close()
    piece = Piece(0, 0.0, 1, np.zeros(1 << 20, np.float32))
    with pytest.raises(ModelError, match="the chip is busy"):
        child.do(Task(0, (piece,)))


@pytest.mark.parametrize("is_read", [False, True])
def test_child_do_on_killed_process_raises_eof(child: Child, is_read: bool) -> None:
    """This process keeps no copy of the other end, so that it sees the end of the pipe."""
    if is_read:
        reads = threading.Thread(target=lambda: (Process.made.theirs.recv(),
                                                 Process.made.theirs.close()))  # fmt: skip
        reads.start()
    else:
        Process.made.theirs.close()
    with pytest.raises(EOFError):
        child.do(TASK)
    if is_read:
        reads.join()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (-9, "SIGKILL"),
        (-11, "SIGSEGV"),
        (-1, "SIGHUP"),
        (1, "exit code 1"),
        (0, "exit code 0"),
    ],
)
def test_child_died_of_names_signal_or_exit_code(
    child: Child, code: int, reason: str
) -> None:
    Process.made.exitcode = code
    assert child.died_of == reason
    # Before that the system may not know yet.
    assert Process.made.did == ["start", "join"]


def test_child_died_of_without_exit_code_is_code_0(child: Child) -> None:
    assert child.died_of == "exit code 0"


def test_child_kill_ends_and_joins(child: Child) -> None:
    child.kill()
    assert Process.made.did == ["start", "kill", "join"]


def test_retry_after_killed_worker_gives_result(workers: list[Worker]) -> None:
    use(dies_of([0], times=2))
    outcome = engine.Worker(SETUP).do(a_task(0, 2))
    assert outcome == done(a_task(0, 2))
    assert [worker.is_over for worker in workers] == [True, True, False]
    assert [len(worker.tasks[0].pieces) for worker in workers] == [2, 2, 2]


def test_retry_isolates_the_piece_that_kills(
    workers: list[Worker],
) -> None:
    use(dies_of([1]))
    outcome = engine.Worker(SETUP).do(a_task(0, 3))
    assert outcome.shard == 0
    assert failures(outcome) == ["", "engine", ""]
    assert [result.item for result in outcome.results] == [0, 1, 2]
    assert [result.end_s for result in outcome.results] == [1.0, 1.0, 3.0]
    assert all(worker.is_over for worker in workers[:-1])  # one at a time
    # Three workers for all pieces, then three for the one.
    assert sum(worker.is_over for worker in workers) == 6
    assert [len(task.pieces) for task in Worker.held] == [3] * 3 + [1] * 5
    assert (outcome.cpu_s, outcome.audio_s) == (1.0, 4.0)  # of the two that were done


def test_retry_of_single_piece_counts_anew(workers: list[Worker]) -> None:
    use(dies_of([0], times=5))
    outcome = engine.Worker(SETUP).do(a_task(0, 3))
    assert failures(outcome) == ["", "", ""]
    assert [result.item for result in outcome.results] == [0, 1, 2]
    assert [result.end_s for result in outcome.results] == [1.0, 2.0, 3.0]
    assert (outcome.cpu_s, outcome.audio_s) == (1.5, 6.0)
    assert sum(worker.is_over for worker in workers) == 5


def test_retry_single_piece_fails_after_three_workers(
    workers: list[Worker],
) -> None:
    use(dies_of([0]))
    outcome = engine.Worker(SETUP).do(Task(4, (Piece(0, 1.5, 2),)))
    (result,) = outcome.results
    failure = result.failure
    assert failure is not None
    assert (failure.kind, failure.type) == ("engine", "Crash")
    assert "SIGKILL" in failure.message
    expected = PieceResult(0, 1.5, 2, 1.5, failure=failure)
    assert outcome == Outcome(4, (expected,))
    assert (outcome.cpu_s, outcome.audio_s) == (0.0, 0.0)
    assert [worker.is_over for worker in workers] == [True] * 3


def test_retry_failing_task_stops_no_other(workers: list[Worker]) -> None:
    use(dies_of([10, 31]))
    groups = [a_task(0), a_task(1), a_task(2), a_task(3, 2), a_task(4)]
    outcomes = {index_of(outcome): outcome for outcome in run(groups, 2)}
    assert sorted(outcomes) == [0, 1, 2, 3, 4]
    assert {index: failures(outcome) for index, outcome in outcomes.items()} == {
        0: [""], 1: ["engine"], 2: [""], 3: ["", "engine"], 4: [""],
    }  # fmt: skip
    assert all(worker.is_over for worker in workers)
    assert len(outcomes) == 5


def test_retry_includes_last_task(workers: list[Worker]) -> None:
    use(dies_of([0], times=2))
    (outcome,) = run([a_task(0)], 2)
    assert failures(outcome) == [""]
    assert len(workers) == 3


def test_retry_after_lost_device_gives_result(workers: list[Worker]) -> None:
    answers: list[object] = [DeviceError("busy"), DeviceError("busy")]
    use(lambda task: answers.pop() if answers else done(task))
    assert engine.Worker(SETUP).do(a_task(0)) == done(a_task(0))
    assert [worker.is_over for worker in workers] == [True, True, False]


def test_retry_device_that_stays_lost_ends_run(workers: list[Worker]) -> None:
    use(lambda _: DeviceError("gone"))
    with pytest.raises(DeviceError, match="gone"):
        list(run([a_task(0), a_task(1)], 1))
    assert len(Worker.held) >= 3
    assert all(worker.is_over for worker in workers)


def test_retry_missing_model_ends_run_at_once(workers: list[Worker]) -> None:
    use(lambda _: ModelError("no model"))
    with pytest.raises(ModelError, match="no model"):
        list(run([a_task(0)], 1))
    assert [worker.is_over for worker in workers] == [True]
