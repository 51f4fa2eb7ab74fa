"""A job on Ray: the same bytes, whoever is killed; and the program for Ray Data."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.conftest import (
    CLIPS,
    PATIENCE_S,
    ROOT,
    add_node,
    command,
    run,
    transcripts,
)

TRANSCRIBES = "ray::run_shard"
RUNS_A_NODE = "raylet/raylet"
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
PAGE = (ROOT / "docs" / "archives.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def processes(words: str) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", words], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


def kill_one(
    name: str, spared: list[int], driver: subprocess.Popen[bytes], chance: random.Random
) -> list[int]:
    """Kill a process some time after there is one; none where the driver has ended before."""
    while driver.poll() is None:
        if others := [pid for pid in processes(name) if pid not in spared]:
            time.sleep(chance.uniform(0, 3))
            victim = chance.choice(others)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                return [victim]
        time.sleep(0.1)
    return []


def test_cluster_of_this_machine_is_found(
    environment: dict[str, str],
    manifest: Path,
    straight: bytes,
    tmp_path: Path,
    cluster: str,
) -> None:
    del cluster  # it runs, and is not named
    result = run(environment, manifest, "-o", tmp_path / "job", "--engine", "ray")
    assert result.returncode == 3, result.stderr
    assert transcripts(tmp_path / "job") == straight


def test_killed_workers_nodes_and_drivers_lose_nothing(
    environment: dict[str, str],
    manifest: Path,
    straight: bytes,
    tmp_path: Path,
    cluster: str,
) -> None:
    chance = random.Random(1)
    words = (manifest, "-o", tmp_path / "job", "--engine", "ray", "--address", cluster)
    killed: dict[str, list[int]] = {
        TRANSCRIBES: [],
        RUNS_A_NODE: processes(RUNS_A_NODE)[:1],  # the head's
    }
    for names in ((TRANSCRIBES, TRANSCRIBES, RUNS_A_NODE), (TRANSCRIBES,)):
        driver = subprocess.Popen(
            command(*words), env=environment, stderr=subprocess.DEVNULL
        )
        for name in names:
            killed[name] += kill_one(name, killed[name], driver, chance)
        driver.kill()
        driver.wait()
    assert killed[TRANSCRIBES]
    assert len(killed[RUNS_A_NODE]) == 2
    last = run(environment, *words)
    assert last.returncode == 3, last.stderr
    assert transcripts(tmp_path / "job") == straight


def seconds_to_task(begin_s: float, spared: set[int]) -> float:
    """Return the seconds until a task runs in a process that did not run before."""
    while not set(processes(TRANSCRIBES)) - spared:
        time.sleep(0.1)
        assert time.monotonic() - begin_s < PATIENCE_S
    return time.monotonic() - begin_s


def test_node_that_joins_is_used_and_one_that_leaves_costs_its_shard(
    environment: dict[str, str],
    manifest: Path,
    tmp_path: Path,
    head: str,
) -> None:
    small = (manifest, "--part-items", 4)
    run(environment, *small, "-o", tmp_path / "straight")
    words = command(
        *small, "-o", tmp_path / "job", "--engine", "ray", "--address", head
    )
    parts = tmp_path / "job" / "transcripts"
    heads_own = processes(RUNS_A_NODE)
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as driver:
        time.sleep(5)
        assert not parts.exists(), "no node can do anything"
        add_node(environment)
        first_s = seconds_to_task(time.monotonic(), set())
        while not any(parts.glob("part-*")):
            time.sleep(0.2)
            assert driver.poll() is None
        (node,) = set(processes(RUNS_A_NODE)) - set(heads_own)
        first_nodes = set(processes("ray::"))
        add_node(environment)
        second_s = seconds_to_task(time.monotonic(), first_nodes)
        os.kill(node, signal.SIGKILL)
        written = {path: path.stat().st_ino for path in parts.glob("part-*")}
        assert driver.wait(PATIENCE_S) == 3
    sys.stdout.write(
        f"a task runs {first_s:.1f} and {second_s:.1f} s after nodes joined\n"
    )
    # Nothing that was done is done again: a node costs what runs on its one processor.
    assert {path: path.stat().st_ino for path in written} == written
    assert transcripts(tmp_path / "job") == transcripts(tmp_path / "straight")


def test_head_that_dies_is_one_line(
    environment: dict[str, str], manifest: Path, tmp_path: Path, head: str
) -> None:
    words = command(
        manifest, "-o", tmp_path / "job", "--engine", "ray", "--address", head
    )
    with subprocess.Popen(
        words, env=environment, stderr=subprocess.PIPE, text=True
    ) as driver:
        time.sleep(15)
        for pid in processes("gcs_server"):
            os.kill(pid, signal.SIGKILL)
        _, errors = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 6
    assert errors.splitlines()[-1].startswith("whisper-hailo: the cluster failed (")


def test_no_cluster_is_one_line(
    environment: dict[str, str], manifest: Path, tmp_path: Path
) -> None:
    words = (
        manifest,
        "-o",
        tmp_path / "job",
        "--engine",
        "ray",
        "--address",
        "127.0.0.1:1",
    )
    result = run(environment, *words)
    assert result.returncode == 6
    assert result.stderr.splitlines()[-1].startswith(
        "whisper-hailo: no Ray cluster at 127.0.0.1:1 ("
    )


def test_program_of_the_page_has_the_texts_of_batch(
    environment: dict[str, str], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    (calls / "more").mkdir(parents=True)
    names = ["a.ogg", "b.ogg", "more/c.ogg", "_skipped.ogg"]
    for name, clip in zip(names, CLIPS, strict=False):
        shutil.copyfile(clip, calls / name)
    (calls / "broken.ogg").write_bytes(b"no sound")
    environment = environment | {"RAY_USAGE_STATS_ENABLED": "0"}
    environment["RAY_AUTH_MODE"] = "disabled"  # as somebody who tries it
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = parquet.read_table(tmp_path / "texts").to_pylist()
    found = {Path(row["path"]).relative_to("calls").as_posix(): row for row in rows}
    assert set(found) == {"a.ogg", "b.ogg", "more/c.ogg", "broken.ogg"}
    assert "not" in found["broken.ogg"]["error"]
    run(environment, calls, "-o", tmp_path / "job")
    content = (tmp_path / "job/transcripts/part-00000.jsonl").read_text()
    records = [json.loads(line) for line in content.splitlines()]
    expected = {record["id"]: record.get("text") for record in records}
    assert {name.removesuffix(".ogg"): row["text"] for name, row in found.items()} == {
        item: text for item, text in expected.items() if item != "_skipped"
    }
