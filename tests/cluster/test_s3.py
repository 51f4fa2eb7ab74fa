"""A job whose recordings and results are in a bucket that fails: the same bytes as on a disk.

`S3_FILES=1000 S3_KILLS=10 make lab NAME=bucket ARGS=-s` takes more of both and prints what
happened.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import CLIPS, command, run, transcripts

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
pytest.importorskip("moto", reason="moto is not installed")

PORT = 5599
SHARE = 0.1
N_FILES = int(os.environ.get("S3_FILES", "60"))
N_KILLS = int(os.environ.get("S3_KILLS", "3"))
JOB = "results/job"


@pytest.fixture
def bucket(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Any]:
    """A file system with recordings in `s3://calls`."""
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{PORT}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "SECRET-OF-SOMEONE",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(environment, name, value)
    words = [
        sys.executable,
        "-m",
        "tests.cluster.s3_server",
        str(PORT),
        str(SHARE),
        "1",
    ]
    log = tmp_path / "server.log"
    with log.open("wb") as file, subprocess.Popen(words, stderr=file) as server:
        files = s3fs.S3FileSystem(skip_instance_cache=True)
        for _ in range(100):
            try:
                files.mkdir("calls")
                break
            except Exception:
                time.sleep(0.2)
        files.mkdir("results")
        for number in range(N_FILES):
            clip = CLIPS[number % len(CLIPS)]
            files.pipe_file(f"calls/{number % 7}/{number:04}.ogg", clip.read_bytes())
        files.pipe_file("calls/poison.ogg", b"no sound")
        yield files
        server.kill()
    kinds = ("busy", "late", "cut", "expired")
    counts = {kind: log.read_text().count(f"fault {kind}") for kind in kinds}
    sys.stdout.write(f"faults {counts}\n")
    assert min(counts.values()) > 0 or N_FILES < 60


def count_parts(bucket: Any) -> int:
    """Return the number of parts that are done."""
    bucket.invalidate_cache()
    folder = f"{JOB}/transcripts"
    return len(bucket.ls(folder)) if bucket.exists(folder) else 0


def kill_in_a_part(
    environment: dict[str, str], bucket: Any, words: list[str], wait_s: float
) -> int:
    """Kill a run some time after it has written a part; return how many there are."""
    n_before = count_parts(bucket)
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as run:
        while run.poll() is None and count_parts(bucket) == n_before:
            time.sleep(0.2)
        time.sleep(wait_s)
        run.kill()
    return count_parts(bucket)


def test_bucket_that_fails_gives_the_bytes_of_a_disk(
    environment: dict[str, str], bucket: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "calls"
    bucket.get("calls", str(folder), recursive=True)
    options = ("-f", "srt", "--part-items", 10)
    straight = run(environment, folder, "-o", tmp_path / "job", *options)
    assert straight.returncode == 3, straight.stderr
    words = ("s3://calls", "-o", f"s3://{JOB}", *options)
    chance = random.Random(1)
    n_parts = [
        kill_in_a_part(environment, bucket, command(*words), chance.uniform(0, 2))
        for _ in range(N_KILLS)
    ]
    last = run(environment, *words)
    sys.stdout.write(f"killed after {n_parts} of {count_parts(bucket)} parts\n")
    assert last.returncode == 3, last.stderr
    assert "SECRET" not in last.stderr
    bucket.get(JOB, str(tmp_path / "fetched"), recursive=True)
    fetched = tmp_path / "fetched"
    names = [path.relative_to(fetched) for path in fetched.rglob("*.srt")]
    assert len(names) == N_FILES
    for name in names:
        assert (fetched / name).read_bytes() == (tmp_path / "job" / name).read_bytes()
    local = transcripts(tmp_path / "job").replace(str(folder).encode(), b"s3://calls")
    assert transcripts(fetched) == local
