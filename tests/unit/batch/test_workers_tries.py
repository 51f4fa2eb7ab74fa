"""Retries of a task whose worker dies, and errors of the device and the model."""

from __future__ import annotations

import pytest

from tests.fakes.batch_workers import (
    SETUP,
    Worker,
    a_task,
    dies_of,
    done,
    failures,
    index_of,
    run,
    use,
    workers,
)
from whisper_hailo.batch import workers as engine
from whisper_hailo.batch.tasks import Outcome, Piece, PieceResult, Task
from whisper_hailo.core.errors import DeviceError, ModelError

__all__ = ["workers"]


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
