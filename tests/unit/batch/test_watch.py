"""A job whose folders grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.batch_jobs import JOB, SETUP, Clock, World, results, world
from whisper_hailo.batch import watch
from whisper_hailo.batch.job import Job
from whisper_hailo.batch.run import Progress, ShardRunner
from whisper_hailo.batch.storage import Storage
from whisper_hailo.batch.watch import StillFiles, watch_shards

__all__ = ["world"]


def test_still_files_have_not_changed_for_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(watch, "monotonic", clock)
    path = tmp_path / "a.wav"
    is_still = StillFiles()
    assert not is_still(str(path))
    path.write_bytes(b"a")
    assert not is_still(str(path))
    clock.now_s += 0.1
    assert not is_still(str(path)), "a folder may be listed twice at once"
    clock.now_s += watch.INTERVAL_S
    assert is_still(str(path))
    path.write_bytes(b"ab")
    assert not is_still(str(path))
    clock.now_s += watch.INTERVAL_S
    os.utime(path, ns=(1, 1))
    assert not is_still(str(path))
    clock.now_s += watch.INTERVAL_S
    assert is_still(str(path))
    assert is_still("s3://bucket/a.wav")


def test_watch_transcribes_new_files(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "INTERVAL_S", 0.01)
    folder = tmp_path / "in"
    folder.mkdir()
    coming = ["a", "bb", "c", "dd", "e", "ff"]
    job = Job(Storage(str(tmp_path / "job")), JOB, [str(folder)], None, StillFiles())
    with job, ShardRunner(job.storage, job.settings, SETUP, 1) as runner:
        (folder / "0.wav").touch()
        for report in runner.run(watch_shards(job, runner), Progress()):
            if report is None:
                continue
            if not coming:
                break
            (folder / f"{coming.pop(0)}.wav").touch()
    names = {name for name in results(tmp_path / "job") if name.startswith("txt")}
    expected = {"0", "a", "bb", "c", "dd", "e", "ff"}
    assert names == {f"txt/{name}.txt" for name in expected}
    assert sorted(set(world.heard)) == sorted(expected)
    assert len(world.heard) == 7 + 3, "those of two pieces twice, and none again"
