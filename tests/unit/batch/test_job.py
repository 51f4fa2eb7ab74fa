"""A job's folder: the same results whatever came in between."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import fsspec
import pytest

from tests.fakes.batch_jobs import (
    JOB,
    Stopped,
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
AWAY = Failure("access", "AccessError", "away")


def lines(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "transcripts").iterdir())
    return [
        json.loads(line) for path in paths for line in path.read_text().splitlines()
    ]


def test_results_are_in_the_order_of_the_manifest(world: World, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("seed", range(4))
def test_killed_runs_give_the_same_bytes(
    world: World, tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)
    world.failures["e"] = BAD
    manifest = write_manifest(tmp_path, IDS)
    run_job(tmp_path / "straight", manifest)
    n_runs = 0
    while True:
        n_runs += 1
        world.n_left = chance.randrange(1, 4)
        try:
            run_job(tmp_path / "job", manifest, n_workers=1 + seed % 2)
        except Stopped:
            continue
        break
    assert n_runs > 1
    assert results(tmp_path / "job") == results(tmp_path / "straight")
    assert list((tmp_path / "cache" / "shards").iterdir()) == []


def test_run_that_was_killed_repeats_no_task(world: World, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, IDS)
    world.n_left = 3
    with pytest.raises(Stopped):
        run_job(tmp_path / "job", manifest)
    heard = list(world.heard)
    world.n_left = None
    run_job(tmp_path / "job", manifest)
    assert len(world.heard) == sum(2 - len(name) % 2 for name in IDS)
    assert world.heard[: len(heard)] == heard


def test_shares_together_give_the_same_bytes(world: World, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, IDS)
    run_job(tmp_path / "straight", manifest)
    for index in (2, 0, 1):
        run_job(tmp_path / "job", manifest, share=Share(index, 3))
    assert results(tmp_path / "job") == results(tmp_path / "straight")
    n_heard = len(world.heard)
    run_job(tmp_path / "job", manifest)
    assert len(world.heard) == n_heard


def test_files_are_written_as_soon_as_a_recording_is_done(
    world: World, tmp_path: Path
) -> None:
    world.failures["a"] = BAD
    world.n_left = 2  # a, bb, and half of c
    with pytest.raises(Stopped):
        run_job(tmp_path / "job", write_manifest(tmp_path, ["a", "bb", "c", "dd"]))
    written = results(tmp_path / "job")
    assert {"txt/bb.txt", "failures/part-00000.jsonl"} <= written.keys()
    assert not [name for name in written if name.startswith("transcripts")]


def test_recording_that_was_away_is_tried_by_the_next_run(
    world: World, tmp_path: Path
) -> None:
    manifest = write_manifest(tmp_path, IDS)
    run_job(tmp_path / "straight", manifest)
    world.failures = {"c": AWAY, "e": BAD}
    progress = run_job(tmp_path / "job", manifest)
    assert progress.failed == {"access": 1, "audio": 1}
    assert "transcripts/partial-00000.jsonl" in results(tmp_path / "job")
    world.failures = {}
    world.heard = []
    progress = run_job(tmp_path / "job", manifest)
    assert world.heard == ["c"]
    written = results(tmp_path / "job")
    straight = results(tmp_path / "straight")
    name = "transcripts/part-00000.jsonl"
    assert written[name] == straight[name]
    assert "transcripts/partial-00000.jsonl" not in written
    assert "failures/part-00000.jsonl" not in written
    assert "failures/part-00001.jsonl" in written, "a broken one is not tried again"


def test_away_then_killed_then_back_is_transcribed(
    world: World, tmp_path: Path
) -> None:
    manifest = write_manifest(tmp_path, IDS[:4])
    world.failures = {"a": AWAY}
    world.n_left = 2
    with pytest.raises(Stopped):
        run_job(tmp_path / "job", manifest)
    world.n_left = None
    world.failures = {}
    run_job(tmp_path / "job", manifest)
    assert [record.get("text") for record in lines(tmp_path / "job")] == [
        "a", "bb bb", "c", "dd dd",
    ]  # fmt: skip


def test_warnings_are_in_records_and_counted(world: World, tmp_path: Path) -> None:
    world.warnings = {"a": ("breaks off",), "bb": ("breaks off",)}
    progress = run_job(tmp_path / "job", write_manifest(tmp_path, IDS[:3]))
    warnings = [record["warnings"] for record in lines(tmp_path / "job")]
    expected = [{"kind": "truncated", "message": "breaks off"}]
    assert warnings == [expected, expected, []]
    assert progress.warned == {"truncated": 2}


def test_manifest_grows_at_its_end(world: World, tmp_path: Path) -> None:
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS[:6]))
    world.heard = []
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS))
    assert set(world.heard) == set(IDS[6:])
    run_job(tmp_path / "straight", write_manifest(tmp_path, IDS))
    assert results(tmp_path / "job") == results(tmp_path / "straight")


def test_manifest_with_other_lines_is_refused(world: World, tmp_path: Path) -> None:
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS[:6]))
    with pytest.raises(OptionError, match="only grow at its end"):
        run_job(tmp_path / "job", write_manifest(tmp_path, ["x", *IDS]))


def test_folder_keeps_names_and_places_of_its_recordings(
    world: World, tmp_path: Path
) -> None:
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


def test_format_is_added_without_new_work(world: World, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, IDS)
    formats = ("txt", "srt", "json")
    run_job(tmp_path / "straight", manifest, settings=replace(JOB, formats=formats))
    run_job(tmp_path / "job", manifest)
    world.heard = []
    run_job(tmp_path / "job", manifest, settings=replace(JOB, formats=formats[1:]))
    assert world.heard == []
    assert results(tmp_path / "job") == results(tmp_path / "straight")


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
    with pytest.raises(OptionError, match="options or version"):
        run_job(tmp_path / "job", manifest, settings=replace(JOB, **change))


def test_job_of_other_recordings_is_refused(world: World, tmp_path: Path) -> None:
    del world
    run_job(tmp_path / "job", write_manifest(tmp_path, IDS))
    (tmp_path / "a.wav").touch()
    with pytest.raises(OptionError, match="holds a job for the recordings of"):
        run_job(tmp_path / "job", str(tmp_path / "a.wav"))


def test_job_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.sqlite").touch()
    with pytest.raises(OptionError, match=r"earlier version .* --output-dir"):
        Job(Storage(str(tmp_path)), JOB, [write_manifest(tmp_path, IDS)]).open()
    assert not (tmp_path / "job.json").exists()


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_damaged_job_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "job.json").write_text(content)
    with pytest.raises(OptionError, match="damaged"):
        Job(Storage(str(tmp_path)), JOB, [write_manifest(tmp_path, IDS)]).open()


def test_damaged_last_part_is_refused(world: World, tmp_path: Path) -> None:
    del world
    manifest = write_manifest(tmp_path, IDS[:3])
    run_job(tmp_path / "job", manifest)
    (tmp_path / "job" / "transcripts" / "part-00000.jsonl").write_text("{\n")
    with pytest.raises(OptionError, match="damaged"):
        run_job(tmp_path / "job", manifest)


def test_only_one_run_works_on_a_local_job(world: World, tmp_path: Path) -> None:
    del world
    manifest = write_manifest(tmp_path, IDS)
    with (
        Job(Storage(str(tmp_path / "job")), JOB, [manifest]),
        pytest.raises(OutputError, match="another run is working on"),
    ):
        run_job(tmp_path / "job", manifest)


def test_job_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="lists no recordings"):
        Job(Storage(str(tmp_path)), JOB, [write_manifest(tmp_path, [])]).open()


def test_ids_that_are_no_text_are_kept(world: World, tmp_path: Path) -> None:
    del world
    folder = tmp_path / "talks"
    folder.mkdir()
    (folder / "\udcff.wav").touch()
    run_job(tmp_path / "job", str(folder))
    assert (tmp_path / "job" / "txt" / "\udcff.txt").exists()
    assert list(run_job(tmp_path / "job", str(folder)).failed) == []
