"""Metrics of a server."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.fakes.micro_service import (
    OPTIONS,
    MicroService,
    client,
    transcribe,
)
from whisper_hailo import Transcriber
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.serve.jobs import ClientRecording, Job
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.serve.request import Caller, Priority, RequestDefaults
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.transcription.run import TranscriptionRun

pytest.importorskip("prometheus_client", reason="the server extra is not installed")


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


@pytest.fixture(scope="module")
def run() -> TranscriptionRun:
    transcriber = Transcriber.from_model("micro", threads=1)
    return TranscriptionRun(transcriber, transcriber.default_options)


def test_metrics_chip_temperature_only_while_open() -> None:
    micro = MicroService()
    assert b"chip_celsius" not in micro.metrics.render_page()
    transcriber = micro.model.transcriber
    encoder = transcriber.encoder
    assert encoder is not None
    type(encoder).temperature_c = property(lambda _self: 41.5)  # type: ignore[attr-defined]
    try:
        metrics = Metrics()
        worker = ServedModel(
            transcriber, RequestDefaults(OPTIONS), metrics, ModelMemory()
        )
        assert b"chip_celsius NaN" in metrics.render_page()
        with worker:
            assert b"chip_celsius 41.5" in metrics.render_page()
    finally:
        del type(encoder).temperature_c  # type: ignore[attr-defined]


def test_metrics_waits_are_labelled_by_priority(run: TranscriptionRun) -> None:
    job = make_job(run, Priority.LONG)
    job.recording.begun_s = job.asked_s + 2.0
    metrics = Metrics()
    metrics.record_job(job, None, job.asked_s + 3.0)
    assert 'wait_seconds_sum{priority="long"} 2.0' in metrics.render_page().decode()


def test_metrics_windows_are_counted_by_priority() -> None:
    metrics = Metrics()
    for priority in (Priority.LONG, Priority.INTERACTIVE, Priority.LONG):
        metrics.count_window(priority)
    assert 'windows_total{priority="long"} 2.0' in metrics.render_page().decode()


def test_metrics_count_requests_and_failures(micro: MicroService) -> None:
    web = client(micro)
    transcribe(web)
    transcribe(web, language="xx")
    page = web.get("/metrics").text
    assert 'whisper_hailo_requests_total{api="openai",outcome="done"}' in page
    assert "_created" not in page
    assert 'stage="total"' not in page
    assert 'whisper_hailo_errors_total{kind="OptionError"}' in page
    assert 'whisper_hailo_state{model="micro",state="ready"} 1.0' in page
    assert "whisper_hailo_queue_depth 0.0" in page
    assert 'whisper_hailo_stage_seconds_total{stage="decode"}' in page
