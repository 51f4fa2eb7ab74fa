"""A process of our own, and what is known of its end; without one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest

from tests.fakes.batch_workers import SETUP
from whisper_hailo.batch import workers
from whisper_hailo.batch.tasks import Outcome, Piece, Task
from whisper_hailo.batch.workers import Child
from whisper_hailo.core.errors import ModelError


class Process:
    """In the place of one: it never begins, and is told how it ended."""

    made: Process

    def __init__(self, *, target: Any, args: tuple[Any, ...], daemon: bool) -> None:
        Process.made = self
        self.target, self.args, self.daemon = target, args, daemon
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
    """Of `multiprocessing`."""

    Process = Process
    Pipe = staticmethod(multiprocessing.Pipe)


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Any:
    asked: list[str] = []

    def get_context(method: str) -> type[Context]:
        asked.append(method)
        return Context

    monkeypatch.setattr(multiprocessing, "get_context", get_context)
    yield Child(SETUP)
    assert asked == ["spawn"]
    Process.made.theirs.close()


TASK = Task(0, ())


def test_it_begins_as_it_is_made_and_ends_with_its_parent(one: Child) -> None:
    process = Process.made
    assert process.did == ["start"]
    assert process.daemon
    assert process.target is workers.run_worker
    assert signal.SIGINT in process.blocked, "Ctrl-C is its parent's affair"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert process.args[1] is SETUP
    outcome = Outcome(0, ())
    process.theirs.send(outcome)
    assert one.do(TASK) == outcome
    assert process.theirs.recv() == TASK


def test_what_its_target_died_of_is_raised(one: Child) -> None:
    Process.made.theirs.send(ModelError("no model"))
    with pytest.raises(ModelError, match="no model"):
        one.do(TASK)


def test_what_it_died_of_is_raised_whatever_the_task_holds(one: Child) -> None:
    """A large task cannot be sent to a process that is gone; what it said is still there."""
    Process.made.theirs.send(ModelError("the chip is busy"))
    Process.made.theirs.close()
    piece = Piece(0, 0.0, 1, np.zeros(1 << 20, np.float32))
    with pytest.raises(ModelError, match="the chip is busy"):
        one.do(Task(0, (piece,)))


@pytest.mark.parametrize("is_read", [False, True])
def test_one_that_died_has_nothing_to_say(one: Child, is_read: bool) -> None:
    """No copy of its end is left in this process, so that its end is seen."""
    if is_read:
        reads = threading.Thread(target=lambda: (Process.made.theirs.recv(),
                                                 Process.made.theirs.close()))  # fmt: skip
        reads.start()
    else:
        Process.made.theirs.close()
    with pytest.raises(EOFError):
        one.do(TASK)
    if is_read:
        reads.join()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (-9, "SIGKILL"),
        (-11, "SIGSEGV"),
        (-1, "SIGHUP"),
        (1, "exit code 1"),
        (0, "exit code 0"),
    ],
)
def test_what_it_died_of_has_a_name(one: Child, code: int, why: str) -> None:
    Process.made.exitcode = code
    assert one.died_of == why
    # Before that the system may not know yet.
    assert Process.made.did == ["start", "join"]


def test_one_whose_end_is_not_known_has_no_signal(one: Child) -> None:
    assert one.died_of == "exit code 0"


def test_it_ends_at_once_and_is_gone_then(one: Child) -> None:
    one.kill()
    assert Process.made.did == ["start", "kill", "join"]
