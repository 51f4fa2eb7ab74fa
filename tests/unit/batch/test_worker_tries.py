"""What becomes of a task whose worker dies, whose device is gone, whose model is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.batch.workers import (
    SETUP,
    Worker,
    a_task,
    dies_of,
    done,
    failures,
    read,
    use,
    workers,
)
from whisper_hailo.batch import workers as engine
from whisper_hailo.batch.manifest import Failure, Group, Item, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.workers import LocalEngine
from whisper_hailo.core.errors import DeviceError, ModelError

__all__ = ["read", "workers"]


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
    assert all(worker.is_over for worker in workers[:-1])  # one at a time
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
    assert (outcome.took_s, outcome.audio_s) == (0.0, 0.0)
    assert [worker.is_over for worker in workers] == [True] * 3


def test_a_task_that_kills_its_workers_stops_no_other(workers: list[Worker], read: Any) -> None:
    use(dies_of([10, 31]))
    groups = read([a_task(0), a_task(1), a_task(2), a_task(3, 2), a_task(4, last=True)])
    outcomes = {one.index: one for one in LocalEngine(SETUP, 2).run(groups)}
    assert sorted(outcomes) == [0, 1, 2, 3, 4]
    assert {n: failures(one) for n, one in outcomes.items()} == {
        0: [""], 1: ["Crash"], 2: [""], 3: ["", "Crash"], 4: [""],
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


class Dead(Worker):
    """A worker that died before it was sent anything."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self._theirs.close()

    def send(self, task: Task) -> None:
        Worker.held.append(task)
        raise EOFError


@pytest.mark.slow
def test_recordings_of_workers_that_die_unheard_fail(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "Child", Dead)
    items = tuple(Item(name, str(tmp_path / f"{name}.wav")) for name in "ab")
    (outcome,) = LocalEngine(SETUP, 2).run([Group(0, items)])
    assert failures(outcome) == ["Crash", "Crash"]
    assert len(workers) == 9  # three for both, then three for each


def test_a_task_whose_workers_die_before_they_hear_of_it_fails(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "Child", Dead)
    (result,) = LocalEngine(SETUP, 1).do(Task(0, 0, (Piece(0, 1.5),), is_last=True)).results
    assert result.failure is not None
    assert result.failure.message == "3 workers died of it (SIGKILL); report it"
    assert len(workers) == 3
