"""Shards that are interrupted, resumed, retried and written in further formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

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
from whisper_hailo.batch.tasks import Failure
from whisper_hailo.core.errors import OptionError

__all__ = ["world"]

IDS = ["a", "bb", "c", "dd", "e", "ff", "g", "hh", "iii", "jj"]


BAD = Failure("audio", "AudioError", "bad")


AWAY = Failure("access", "AccessError", "away")


def lines(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "transcripts").iterdir())
    return [
        json.loads(line) for path in paths for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize("seed", range(4))
def test_shard_work_killed_runs_give_same_bytes(
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


def test_shard_work_after_kill_repeats_no_task(world: World, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, IDS)
    world.n_left = 3
    with pytest.raises(Stopped):
        run_job(tmp_path / "job", manifest)
    recordings = list(world.heard)
    world.n_left = None
    run_job(tmp_path / "job", manifest)
    assert len(world.heard) == sum(2 - len(name) % 2 for name in IDS)
    assert world.heard[: len(recordings)] == recordings


def test_shard_work_writes_files_per_finished_recording(
    world: World, tmp_path: Path
) -> None:
    world.failures["a"] = BAD
    world.n_left = 2  # a, bb, and half of c
    with pytest.raises(Stopped):
        run_job(tmp_path / "job", write_manifest(tmp_path, ["a", "bb", "c", "dd"]))
    written = results(tmp_path / "job")
    assert {"txt/bb.txt", "failures/part-00000.jsonl"} <= written.keys()
    assert not [name for name in written if name.startswith("transcripts")]


def test_shard_work_retries_missing_recording_in_next_run(
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


def test_shard_work_transcribes_recording_that_comes_back(
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


def test_shard_work_counts_warnings_of_records(world: World, tmp_path: Path) -> None:
    world.warnings = {"a": ("breaks off",), "bb": ("breaks off",)}
    progress = run_job(tmp_path / "job", write_manifest(tmp_path, IDS[:3]))
    warnings = [record["warnings"] for record in lines(tmp_path / "job")]
    expected = [{"kind": "truncated", "message": "breaks off"}]
    assert warnings == [expected, expected, []]
    assert progress.warned == {"truncated": 2}


def test_shard_work_adds_format_without_new_work(world: World, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, IDS)
    formats = ("txt", "srt", "json")
    run_job(tmp_path / "straight", manifest, settings=replace(JOB, formats=formats))
    run_job(tmp_path / "job", manifest)
    world.heard = []
    run_job(tmp_path / "job", manifest, settings=replace(JOB, formats=formats[1:]))
    assert world.heard == []
    assert results(tmp_path / "job") == results(tmp_path / "straight")


def test_shard_work_refuses_damaged_last_part(world: World, tmp_path: Path) -> None:
    del world
    manifest = write_manifest(tmp_path, IDS[:3])
    run_job(tmp_path / "job", manifest)
    (tmp_path / "job" / "transcripts" / "part-00000.jsonl").write_text("{\n")
    with pytest.raises(OptionError, match=r"part-00000\.jsonl"):
        run_job(tmp_path / "job", manifest)
