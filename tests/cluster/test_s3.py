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
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
OPTIONS = ("-f", "srt", "--part-items", 10)


@dataclass(frozen=True)
class Bucket:
    """Recordings in `s3://calls`, and the same ones in a folder.

    Attributes:
        expired: while this file exists, no recording can be read.
    """

    files: Any
    folder: Path
    expired: Path


@pytest.fixture
def bucket(
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Bucket]:
    """A server with as many recordings as the test asks for, and one that is broken."""
    n_files: int = getattr(request, "param", N_FILES)
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{PORT}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "SECRET-OF-SOMEONE",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(environment, name, value)
    recordings = {"poison.ogg": b"no sound"}
    for number in range(n_files):
        clip = CLIPS[number % len(CLIPS)]
        recordings[f"{number % 7}/{number:04}.ogg"] = clip.read_bytes()
    folder = tmp_path / "calls"
    for name, content in recordings.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    expired = tmp_path / "expired"
    words = [sys.executable, "-m", "tests.cluster.s3_server"]
    words += [str(PORT), str(SHARE), "1", str(expired)]
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
        files.pipe({f"calls/{name}": content for name, content in recordings.items()})
        yield Bucket(files, folder, expired)
        server.kill()
    lines = log.read_text().splitlines()
    counts = Counter(line for line in lines if line.startswith("fault "))
    sys.stdout.write(f"{dict(counts)}\n")


def count_parts(bucket: Bucket) -> int:
    """Return the number of parts that are done."""
    bucket.files.invalidate_cache()
    folder = f"{JOB}/transcripts"
    if not bucket.files.exists(folder):
        return 0
    return len(bucket.files.ls(folder))


def kill_in_a_part(
    environment: dict[str, str], bucket: Bucket, words: list[str], wait_s: float
) -> int:
    """Kill a run some time after it has written a part; return how many there are."""
    n_before = count_parts(bucket)
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as run:
        while run.poll() is None and count_parts(bucket) == n_before:
            time.sleep(0.2)
        time.sleep(wait_s)
        run.kill()
    return count_parts(bucket)


def expect_results_of_folder(
    environment: dict[str, str], bucket: Bucket, tmp_path: Path
) -> None:
    """Compare the job in the bucket with one on the disk, byte for byte."""
    job = tmp_path / "job"
    straight = run(environment, bucket.folder, "-o", job, *OPTIONS)
    assert straight.returncode == 3, straight.stderr
    fetched = tmp_path / "fetched"
    bucket.files.get(JOB, str(fetched), recursive=True)
    expected = {path.relative_to(job): path for path in job.rglob("*.srt")}
    assert len(expected) == len(list(bucket.folder.glob("*/*")))
    for name, path in expected.items():
        assert (fetched / name).read_bytes() == path.read_bytes()
    local = transcripts(job).replace(str(bucket.folder).encode(), b"s3://calls")
    assert transcripts(fetched) == local


def test_bucket_that_fails_gives_the_bytes_of_a_disk(
    environment: dict[str, str], bucket: Bucket, tmp_path: Path
) -> None:
    words = ("s3://calls", "-o", f"s3://{JOB}", *OPTIONS)
    chance = random.Random(1)
    n_parts = [
        kill_in_a_part(environment, bucket, command(*words), chance.uniform(0, 2))
        for _ in range(N_KILLS)
    ]
    last = run(environment, *words)
    sys.stdout.write(f"killed after {n_parts} of {count_parts(bucket)} parts\n")
    assert last.returncode == 3, last.stderr
    assert "SECRET" not in last.stderr
    expect_results_of_folder(environment, bucket, tmp_path)


N_PARTS = 5


@pytest.mark.parametrize("bucket", [40], indirect=True)
def test_credentials_that_expire_stop_the_job_until_renewed(
    environment: dict[str, str], bucket: Bucket, tmp_path: Path
) -> None:
    words = ("s3://calls", "-o", f"s3://{JOB}", *OPTIONS)
    bucket.expired.touch()
    stopped = run(environment, *words)
    assert stopped.returncode == 3
    assert len(stopped.stderr.splitlines()) == 1
    assert count_parts(bucket) < N_PARTS
    bucket.expired.unlink()
    last = run(environment, *words)
    assert last.returncode == 3, last.stderr
    expect_results_of_folder(environment, bucket, tmp_path)
