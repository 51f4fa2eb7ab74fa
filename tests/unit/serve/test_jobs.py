"""Jobs, their queue and their priorities."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import pytest

from whisper_hailo import Transcriber
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.serve.jobs import ClientRecording, Job, JobQueue
from whisper_hailo.serve.request import Caller, Priority
from whisper_hailo.transcription.run import TranscriptionRun

pytest.importorskip("prometheus_client", reason="the server extra is not installed")


WAIT_S = 60


@pytest.fixture(scope="module")
def run() -> TranscriptionRun:
    transcriber = Transcriber.from_model("micro", threads=1)
    return TranscriptionRun(transcriber, transcriber.default_options)


def make_job(run: TranscriptionRun, priority: Priority = Priority.INTERACTIVE) -> Job:
    """Return a job of a tenth of a second of silence."""

    def ignore(_event: object) -> None:
        pass

    recording = run.recording_of(
        partial(ClientRecording, on_segment=ignore, on_window=ignore),
        np.zeros(SAMPLE_RATE_HZ // 10, np.float32),
        priority=priority,
    )
    return Job(recording, Caller("me", "test"), ignore, run, asked_s=1.0)


def test_queue_wait_ends_with_encoder_or_new_job(run: TranscriptionRun) -> None:
    queue = JobQueue()
    coming: Future[Any] = Future()
    job = make_job(run)
    for happens in (lambda: queue.put(job), lambda: coming.set_result(None)):
        waiting = threading.Thread(target=queue.wait, args=(coming,), daemon=True)
        waiting.start()
        happens()
        waiting.join(WAIT_S)
        assert not waiting.is_alive()
        while queue.next(n_free=0, idle=False):
            pass


def test_queue_job_of_departed_client_is_taken_back(run: TranscriptionRun) -> None:
    """The engine would load its model again and again for it."""
    queue = JobQueue()
    jobs = [make_job(run) for _ in range(2)]
    for job in jobs:
        queue.put(job)
    queue.free_place(jobs[0])
    assert queue.take_back_all() == jobs
    queue.close()
    assert not queue.wait_for_more()


def test_queue_wait_for_commands_ends_with_them(run: TranscriptionRun) -> None:
    queue = JobQueue()
    film = make_job(run, Priority.LONG)
    command = make_job(run)
    queue.put(film)
    queue.wait_for_commands()
    queue.put(command)
    waiting = threading.Thread(target=queue.wait_for_commands, daemon=True)
    waiting.start()
    queue.free_place(command)
    waiting.join(WAIT_S)
    assert not waiting.is_alive()
