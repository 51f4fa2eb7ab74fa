"""Status of a job: counts, the rest, metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.batch_jobs import Stopped, World, run_job, world, write_manifest
from whisper_hailo.batch.status import read_status, to_metrics
from whisper_hailo.batch.storage import Storage
from whisper_hailo.batch.tasks import Failure
from whisper_hailo.core.errors import OptionError

__all__ = ["world"]

IDS = ["a", "bb", "c", "dd", "e", "ff", "g", "hh", "iii", "jj"]


def test_status_counts_shards_that_are_done(world: World, tmp_path: Path) -> None:
    world.failures = {"c": Failure("audio", "AudioError", "bad")}
    world.warnings = {"a": ("breaks off",)}
    world.n_left = 4
    with pytest.raises(Stopped):
        run_job(tmp_path / "job", write_manifest(tmp_path, IDS))
    status = read_status(Storage(str(tmp_path / "job")))
    assert (status.items, status.done, status.failed, status.remaining) == (10, 3, 1, 6)
    assert (status.failures, status.warnings) == ({"audio": 1}, {"truncated": 1})
    assert status.audio_s == 3 * 8.0
    assert status.cpu_s_per_hour >= 3600 * 0.5 / 8
    assert status.left_s is not None


def test_status_of_a_shard_is_that_of_its_last_run(
    world: World, tmp_path: Path
) -> None:
    manifest = write_manifest(tmp_path, IDS)
    world.failures = {"c": Failure("access", "AccessError", "away")}
    run_job(tmp_path / "job", manifest)
    world.failures = {}
    run_job(tmp_path / "job", manifest)
    status = read_status(Storage(str(tmp_path / "job")))
    assert (status.done, status.failed, status.remaining) == (10, 0, 0)
    assert status.left_s == 0.0


def test_status_without_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=re.escape(str(tmp_path))):
        read_status(Storage(str(tmp_path)))


def test_metrics_are_prometheus_lines(world: World, tmp_path: Path) -> None:
    del world
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS))
    text = to_metrics(read_status(Storage(str(tmp_path / "job"))), 'a "job"')
    assert 'whisper_hailo_batch_done{job="a \\"job\\""} 10' in text.splitlines()
    assert text.count("# TYPE") == len(text.splitlines()) / 2
