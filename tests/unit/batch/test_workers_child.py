"""The worker process: its start, messages and end, with a stand-in for the process."""

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
    assert process.target is workers.run_worker
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
