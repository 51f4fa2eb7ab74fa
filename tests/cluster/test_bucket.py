"""Recordings and results in a bucket of a real S3 server, which may vanish."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.cluster.conftest import CLIPS, run

PORT = 5397
ADDRESS = f"http://127.0.0.1:{PORT}"
KEYS = {"key": "k", "secret": "s"}


def server() -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(PORT)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def files() -> Any:
    return fsspec.filesystem("s3", endpoint_url=ADDRESS, skip_instance_cache=True, **KEYS)


@pytest.fixture
def bucket() -> Iterator[subprocess.Popen[bytes]]:
    process = server()
    for _ in range(200):
        try:
            files().mkdir("archive")
            break
        except Exception:
            time.sleep(0.1)
    for clip in CLIPS[:12]:
        files().put_file(str(clip), f"archive/sound/{clip.name}")
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def reaches(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment whose settings lead to the server."""
    settings = {"s3": {"endpoint_url": ADDRESS, **KEYS}}
    (tmp_path / "fsspec").mkdir()
    (tmp_path / "fsspec" / "conf.json").write_text(json.dumps(settings))
    return {**environment, "FSSPEC_CONFIG_DIR": str(tmp_path / "fsspec")}


def test_a_job_in_a_bucket_is_that_of_a_folder(
    bucket: subprocess.Popen[bytes], reaches: dict[str, str], tmp_path: Path
) -> None:
    names = [f"s3://archive/sound/{clip.name}" for clip in CLIPS[:12]]
    missing = "s3://archive/sound/nothing.ogg"
    lines = [json.dumps({"audio": name}) for name in (*names, missing)]
    (tmp_path / "archive.jsonl").write_text("\n".join(lines) + "\n")
    local = run(reaches, tmp_path / "archive.jsonl", "-o", tmp_path / "job", "-f", "srt")
    assert local.returncode == 3, local.stderr
    remote = run(reaches, tmp_path / "archive.jsonl", "-o", "s3://archive/job", "-f", "srt")
    assert remote.returncode == 3, remote.stderr
    written = files().cat_file("archive/job/transcripts/part-00000.jsonl")
    assert written == (tmp_path / "job" / "transcripts" / "part-00000.jsonl").read_bytes()
    assert "-->" in files().cat_file(f"archive/job/srt/archive/sound/{CLIPS[0].name}.srt").decode()
    failed = json.loads(written.splitlines()[-1])["error"]
    assert failed["kind"] == "AudioError"
    assert missing in failed["message"]
    bucket.kill()
    bucket.wait()
    gone = run(reaches, tmp_path / "archive.jsonl", "-o", "s3://archive/other")
    assert gone.returncode == 7
    (line,) = gone.stderr.splitlines()[-1:]
    assert line.startswith("whisper-hailo: cannot read s3://archive/other/job.json (")
