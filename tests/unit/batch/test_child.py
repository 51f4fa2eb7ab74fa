"""A process of our own, and what is known of its end; without one."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection
from typing import Any

import pytest

from whisper_hailo.batch import reader
from whisper_hailo.batch.reader import Child
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
        self.theirs = self.args[1]
        # As the system does: what the process has open is its own.
        self.theirs = Connection(_copy(self.theirs.fileno()))
        self.did.append("start")

    def kill(self) -> None:
        self.did.append("kill")
        self.exitcode = -signal.SIGKILL

    def join(self, timeout: float | None = None) -> None:
        assert timeout is not None  # a process that the system cannot end must not be waited for
        self.did.append("join")


def _copy(number: int) -> int:
    import os

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
    made = Child(_echo, "word")
    assert asked == ["spawn"]
    yield made
    for pipe in (made.pipe, Process.made.theirs):
        pipe.close()


def _echo(pipe: Connection, *words: object) -> None:
    pipe.send((words, pipe.recv()))


def test_it_begins_as_it_is_made_and_ends_with_its_parent(one: Child) -> None:
    process = Process.made
    assert process.did == ["start"]
    assert process.daemon
    assert process.target is reader.run_target
    assert (process.args[0], process.args[2:]) == (_echo, ("word",))
    one.send({"a": 1})
    assert process.theirs.recv() == {"a": 1}
    process.theirs.send([2])
    assert one.receive() == [2]


def test_what_its_target_died_of_is_raised(one: Child) -> None:
    Process.made.theirs.send(ModelError("no model"))
    with pytest.raises(ModelError, match="no model"):
        one.receive()


def test_one_that_died_has_nothing_to_say(one: Child) -> None:
    """No copy of its end is left in this process, so that its end is seen."""
    Process.made.theirs.close()
    with pytest.raises(EOFError):
        one.send("more than the pipe of one that is gone takes")
    with pytest.raises(EOFError):
        one.receive()


def test_a_pipe_that_broke_is_the_end_of_it_too(
    one: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it was killed while it sent something."""

    def reset() -> None:
        raise ConnectionResetError

    pipe = one.pipe
    monkeypatch.setattr(one, "pipe", type("Broken", (), {"recv": staticmethod(reset)}))
    with pytest.raises(EOFError):
        one.receive()
    one.pipe = pipe


@pytest.mark.parametrize(
    ("code", "why"),
    [(-9, "SIGKILL"), (-11, "SIGSEGV"), (-1, "SIGHUP"), (1, "exit code 1"), (0, "exit code 0")],
)
def test_what_it_died_of_has_a_name(one: Child, code: int, why: str) -> None:
    Process.made.exitcode = code
    assert one.died_of == why
    assert Process.made.did == ["start", "join"]  # before that the system may not know yet


def test_one_whose_end_is_not_known_has_no_signal(one: Child) -> None:
    assert one.died_of == "exit code 0"


def test_it_ends_at_once_and_is_gone_then(one: Child) -> None:
    one.end()
    assert one.pipe.closed
    assert Process.made.did == ["start", "kill", "join"]


@pytest.fixture
def ends() -> Any:
    ours, theirs = multiprocessing.Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.usefixtures("signals")
def test_target_process_ends_and_ctrl_c_is_its_parents(
    ends: tuple[Any, Any],
) -> None:
    ours, theirs = ends
    ours.send("said")
    reader.run_target(_echo, theirs, "a", "b")
    assert ours.recv() == (("a", "b"), "said")
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("signals")
def test_target_ends_quietly_with_its_pipe_and_tells_failures(
    ends: tuple[Any, Any],
) -> None:
    ours, theirs = ends

    def fail(*_: object) -> None:
        raise ModelError("no model")

    def end(*_: object) -> None:
        raise EOFError

    reader.run_target(end, theirs)
    assert not ours.poll()
    reader.run_target(fail, theirs)
    assert str(ours.recv()) == "no model"
    ours.close()
    reader.run_target(fail, theirs)  # nobody is there to be told
