"""The folder of a job: results, settings, and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.fakes.batch_jobs import (
    JOB,
    World,
    results,
    run_job,
    world,
    write_manifest,
)
from whisper_hailo.batch.job import Job
from whisper_hailo.batch.shards import Share
from whisper_hailo.batch.storage import Storage
from whisper_hailo.batch.tasks import Failure
from whisper_hailo.core.errors import AudioError, OptionError, OutputError
from whisper_hailo.text.subtitles import Layout

__all__ = ["world"]

IDS = ["a", "bb", "c", "dd", "e", "ff", "g", "hh", "iii", "jj"]
BAD = Failure("audio", "AudioError", "bad")


def lines(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "transcripts").iterdir())
    return [
        json.loads(line) for path in paths for line in path.read_text().splitlines()
    ]


def test_job_results_follow_manifest_order(world: World, tmp_path: Path) -> None:
    world.failures["e"] = BAD
    progress = run_job(tmp_path / "job", write_manifest(tmp_path, IDS))
    records = lines(tmp_path / "job")
    assert [record["id"] for record in records] == IDS
    assert records[1]["text"] == "bb bb"
    assert [part["start"] for part in records[1]["segments"]] == [0.0, 1.0]
    assert records[4]["error"] == {
        "kind": "audio",
        "type": "AudioError",
        "message": "bad",
    }
    written = results(tmp_path / "job")
    parts = [name for name in written if name.startswith("transcripts")]
    assert sorted(parts) == [f"transcripts/part-{n:05}.jsonl" for n in range(3)]
    assert written["txt/bb.txt"] == b"bb\nbb\n"
    assert "txt/e.txt" not in written
    (failed,) = written["failures/part-00001.jsonl"].splitlines()
    assert json.loads(failed)["audio"] == "/e.wav"
    assert (progress.n_done, progress.failed) == (10, {"audio": 1})


def test_job_shares_give_same_bytes(world: World, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, IDS)
    run_job(tmp_path / "straight", manifest)
    for index in (2, 0, 1):
        run_job(tmp_path / "job", manifest, share=Share(index, 3))
    assert results(tmp_path / "job") == results(tmp_path / "straight")
    n_heard = len(world.heard)
    run_job(tmp_path / "job", manifest)
    assert len(world.heard) == n_heard


def test_job_accepts_manifest_grown_at_end(world: World, tmp_path: Path) -> None:
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS[:6]))
    world.heard = []
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS))
    assert set(world.heard) == set(IDS[6:])
    run_job(tmp_path / "straight", write_manifest(tmp_path, IDS))
    assert results(tmp_path / "job") == results(tmp_path / "straight")


def test_job_refuses_changed_manifest(world: World, tmp_path: Path) -> None:
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS[:6]))
    with pytest.raises(OptionError, match="manifest"):
        run_job(tmp_path / "job", write_manifest(tmp_path, ["x", *IDS]))


def test_job_of_folder_keeps_names_and_order(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "talks"
    (folder / "sub").mkdir(parents=True)
    for name in ("b.wav", "sub/c.mp3"):
        (folder / name).touch()
    run_job(tmp_path / "job", str(folder))
    for name in ("a.wav", "b.mp3"):
        (folder / name).touch()
    world.heard = []
    run_job(tmp_path / "job", str(folder))
    ids = [record["id"] for record in lines(tmp_path / "job")]
    assert ids == ["b", "sub/c", "a", "b.mp3"]
    assert set(world.heard) == {"a", "b.mp3"}
    assert {"txt/b.txt", "txt/sub/c.txt", "txt/b.mp3.txt"} <= results(
        tmp_path / "job"
    ).keys()


def test_job_in_a_bucket_has_the_same_bytes(world: World, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    world.failures = {"e": BAD}
    manifest = write_manifest(tmp_path, IDS)
    run_job(tmp_path / "job", manifest)
    run_job("memory://bucket/job", manifest)
    found = {
        name.removeprefix("/bucket/job/"): memory.cat_file(name)
        for name in memory.find("/bucket/job")
    }
    kept = {name: data for name, data in found.items() if not name.startswith("runs")}
    assert kept == results(tmp_path / "job")
    memory.store.clear()


@pytest.mark.parametrize(
    "change",
    [{"identity": "beam"}, {"layout": Layout(max_line_width=42)}, {"n_items": 5}],
    ids=str,
)
def test_job_of_other_settings_is_refused(
    world: World, tmp_path: Path, change: dict[str, Any]
) -> None:
    del world
    manifest = write_manifest(tmp_path, IDS)
    run_job(tmp_path / "job", manifest)
    with pytest.raises(OptionError, match="options"):
        run_job(tmp_path / "job", manifest, settings=replace(JOB, **change))


def test_job_of_other_recordings_is_refused(world: World, tmp_path: Path) -> None:
    del world
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS))
    (tmp_path / "a.wav").touch()
    with pytest.raises(OptionError, match="recordings"):
        run_job(tmp_path / "job", str(tmp_path / "a.wav"))


def test_job_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.sqlite").touch()
    with pytest.raises(OptionError, match="version"):
        Job(Storage(str(tmp_path)), JOB, [write_manifest(tmp_path, IDS)]).open()
    assert not (tmp_path / "job.json").exists()


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_job_refuses_damaged_job_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "job.json").write_text(content)
    with pytest.raises(OptionError, match=r"job\.json"):
        Job(Storage(str(tmp_path)), JOB, [write_manifest(tmp_path, IDS)]).open()


def test_job_refuses_second_run(world: World, tmp_path: Path) -> None:
    del world
    manifest = write_manifest(tmp_path, IDS)
    with (
        Job(Storage(str(tmp_path / "job")), JOB, [manifest]),
        pytest.raises(OutputError, match="job"),
    ):
        run_job(tmp_path / "job", manifest)


def test_job_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        AudioError,
    ):
        Job(Storage(str(tmp_path)), JOB, [write_manifest(tmp_path, [])]).open()


def test_job_keeps_ids_that_are_no_text(world: World, tmp_path: Path) -> None:
    del world
    folder = tmp_path / "talks"
    folder.mkdir()
    (folder / "\udcff.wav").touch()
    run_job(tmp_path / "job", str(folder))
    assert (tmp_path / "job" / "txt" / "\udcff.txt").exists()
    assert list(run_job(tmp_path / "job", str(folder)).failed) == []
