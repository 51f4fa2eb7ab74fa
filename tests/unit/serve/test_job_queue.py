"""The queue: what the schedule waits for, and how urgent a recording is."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from whisper_hailo.serve.jobs import Job, JobQueue
from whisper_hailo.serve.request import Caller, Priority

pytest.importorskip("prometheus_client", reason="the server extra is not installed")

from whisper_hailo.serve.metrics import Metrics

WAIT_S = 60


def test_the_schedule_waits_for_the_encoder_or_for_a_new_request() -> None:
    queue = JobQueue()
    coming: Future[Any] = Future()
    job = object.__new__(Job)
    job.caller, job.begun_s = Caller("me", "test"), 0.0
    for happens in (lambda: queue.put(job), lambda: coming.set_result(None)):
        waiting = threading.Thread(target=queue.wait, args=(coming,), daemon=True)
        waiting.start()
        happens()
        waiting.join(WAIT_S)
        assert not waiting.is_alive()
        while queue.next(n_free=0, idle=False):
            pass


def test_a_job_whose_client_left_does_not_stay() -> None:
    """The engine would load its model again and again for it."""
    queue = JobQueue()
    jobs = [object.__new__(Job) for _ in range(2)]
    for job in jobs:
        job.caller, job.begun_s = Caller("me", "test"), 0.0
        queue.put(job)
    queue.done(jobs[0])
    assert queue.take_all() == jobs
    queue.close()
    assert not queue.wait_for_more()


def test_what_is_long_waits_for_what_is_short_unless_it_is_live() -> None:
    assert Priority.INTERACTIVE.of_length(30.0) is Priority.INTERACTIVE
    assert Priority.INTERACTIVE.of_length(30.1) is Priority.LONG
    for other in (Priority.LIVE, Priority.BATCH):
        assert other.of_length(3600.0) is other
    assert sorted(Priority) == [
        Priority.LIVE, Priority.INTERACTIVE, Priority.LONG, Priority.BATCH,
    ]  # fmt: skip


def test_waits_are_told_by_urgency_not_by_api() -> None:
    job, metrics = object.__new__(Job), Metrics()
    job.caller, job.priority, job.failure = Caller("me", "test"), Priority.LONG, None
    job.asked_s, job.begun_s = 1.0, 3.0
    metrics.done(job, None, 4.0)
    assert 'wait_seconds_sum{priority="long"} 2.0' in metrics.page().decode()
