"""Stages of the job on Ray, without Ray: what they begin once, and keep."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisper_hailo.batch import cluster, workers
from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.tasks import Group, Outcome, Task
from whisper_hailo.batch.workers import Setup
from whisper_hailo.decoding.options import DecodingOptions

SETUP = Setup({"model": "micro"}, DecodingOptions())


class Counted:
    """In the place of a process: answers each task at once."""

    begun = 0

    def __init__(self, _: object) -> None:
        type(self).begun += 1

    def do(self, task: Task) -> Outcome:
        return Outcome(task.group, task.index, ())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(Counted, "begun", 0)
    monkeypatch.setattr(workers, "Child", Counted)
    return Counted


def column(value: object) -> dict[str, Any]:
    cells = np.empty(1, object)
    cells[0] = pickle.dumps(value)
    return {"group": cells, "task": cells}


def test_a_row_for_each_task_of_a_group(tmp_path: Path) -> None:
    group = Group(3, (Item("a", str(tmp_path / "none.wav")),))
    (row,) = cluster.read_groups(column(group))
    (task,) = map(pickle.loads, row["task"])
    assert (task.group, task.pieces[0].failure.kind) == (3, "AudioError")


def test_an_actor_s_worker_begins_with_it_and_stays(counted: type[Counted]) -> None:
    actor = type(
        "Actor", (cluster.TranscriptionActor,), {"setup": pickle.dumps(SETUP)}
    )()
    assert counted.begun == 1
    for index in range(3):
        (outcome,) = map(pickle.loads, actor(column(Task(7, index, ())))["outcome"])
        assert (outcome.group, outcome.index) == (7, index)
    assert counted.begun == 1
