"""Stages of the job on Ray, without Ray: what they begin once, and keep."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisper_hailo.batch import cluster, reader, workers
from whisper_hailo.batch.manifest import Group, Item, Outcome, Task
from whisper_hailo.batch.reader import Child
from whisper_hailo.batch.workers import Setup
from whisper_hailo.decoding.options import DecodingOptions

SETUP = Setup({"model": "micro"}, DecodingOptions())


class Counted:
    """In the place of a process: answers each task at once."""

    begun = 0

    def __init__(self, *_: object) -> None:
        type(self).begun += 1
        self.pipe, self._theirs = multiprocessing.Pipe()

    def send(self, task: Task) -> None:
        self._theirs.send(Outcome(task.group, task.index, task.is_last, ()))

    def receive(self) -> Any:
        return self.pipe.recv()

    def end(self) -> None:
        self.pipe.close()
        self._theirs.close()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(Counted, "begun", 0)
    monkeypatch.setattr(workers, "Child", Counted)
    return Counted


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Child]]:
    """Processes that readers begin."""
    begun: list[Child] = []

    def begin(*words: Any) -> Child:
        begun.append(Child(*words))
        return begun[-1]

    monkeypatch.setattr(reader, "Child", begin)
    cluster.get_reader.cache_clear()
    yield begun
    cluster.get_reader().close()
    cluster.get_reader.cache_clear()


def column(value: object) -> dict[str, Any]:
    cells = np.empty(1, object)
    cells[0] = pickle.dumps(value)
    return {"group": cells, "task": cells}


@pytest.mark.slow
def test_one_process_reads_group_after_group(children: list[Child], tmp_path: Path) -> None:
    for index in range(3):
        group = Group(index, (Item("a", str(tmp_path / "none.wav")),))
        (row,) = cluster.read_groups(column(group))
        (task,) = map(pickle.loads, row["task"])
        assert (task.group, task.pieces[0].failure.kind) == (index, "AudioError")
    assert len(children) == 1


def test_an_actor_s_worker_begins_with_it_and_stays(counted: type[Counted]) -> None:
    actor = type("Actor", (cluster.TranscriptionActor,), {"setup": pickle.dumps(SETUP)})()
    assert counted.begun == 1
    for index in range(3):
        (outcome,) = map(pickle.loads, actor(column(Task(7, index, (), False)))["outcome"])
        assert (outcome.group, outcome.index) == (7, index)
    assert counted.begun == 1
