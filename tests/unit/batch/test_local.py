"""The local engine, with stand-ins for its worker processes."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from whisper_hailo.batch import local
from whisper_hailo.batch.local import LocalEngine
from whisper_hailo.batch.records import Group, Item, Piece, Task
from whisper_hailo.batch.worker import Setup
from whisper_hailo.decoding.options import DecodingOptions

SETUP = Setup({"model": "micro"}, DecodingOptions())


class Dead:
    """A worker that died before it was sent anything."""

    begun = 0
    died_of = "SIGKILL"

    def __init__(self, *_: object) -> None:
        Dead.begun += 1
        self.pipe, theirs = multiprocessing.Pipe()
        theirs.close()

    def send(self, _: Task) -> None:
        raise EOFError

    def receive(self) -> object:
        return self.pipe.recv()

    def end(self) -> None:
        self.pipe.close()


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> type[Dead]:
    monkeypatch.setattr(Dead, "begun", 0)
    monkeypatch.setattr(local, "Child", Dead)
    return Dead


@pytest.mark.slow
def test_recordings_whose_workers_die_before_they_hear_of_them_fail(
    dead: type[Dead], tmp_path: Path
) -> None:
    items = tuple(Item(name, str(tmp_path / f"{name}.wav")) for name in "ab")
    (outcome,) = LocalEngine(SETUP, 2).run([Group(0, items)])
    failures = [result.failure for result in outcome.results]
    assert [failure.kind for failure in failures if failure] == ["Crash", "Crash"]
    assert dead.begun == 9  # three for both, then three for each


def test_a_task_whose_workers_die_before_they_hear_of_it_fails(dead: type[Dead]) -> None:
    outcome = LocalEngine(SETUP, 1).do(Task(0, 0, (Piece(0, 1.5),), is_last=True))
    (result,) = outcome.results
    assert result.failure is not None
    assert result.failure.message == "3 workers died of it (SIGKILL); report it"
    assert dead.begun == 3
