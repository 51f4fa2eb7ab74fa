"""Recordings and results in a bucket of a real S3 server, which may vanish and come back."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.cluster.conftest import CLIPS, PATIENCE_S, command, run

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


class Door:
    """The way to a server, which keeps what it has while the way is shut."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ways: list[socket.socket] = []
        self._go_on()

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._go_on()

    def shut(self) -> None:
        for way in (self._listener, *self._ways):
            with suppress(OSError):
                way.shutdown(socket.SHUT_RDWR)
            way.close()
        self._ways.clear()

    def _go_on(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, server = listener.accept()[0], socket.create_connection(self._to)
                self._ways += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


def config(folder: Path, settings: dict[str, Any]) -> dict[str, str]:
    """Settings of fsspec, for the environment."""
    (folder / "fsspec").mkdir()
    (folder / "fsspec" / "conf.json").write_text(json.dumps(settings))
    return {"FSSPEC_CONFIG_DIR": str(folder / "fsspec")}


@pytest.fixture
def reaches(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment whose settings lead to the server."""
    return environment | config(tmp_path, {"s3": {"endpoint_url": ADDRESS, **KEYS}})


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
    assert line.startswith("whisper-hailo: cannot read s3://archive/other/job.sqlite (")


def test_bucket_that_vanishes_in_middle_costs_run_and_no_work(
    bucket: subprocess.Popen[bytes], environment: dict[str, str], tmp_path: Path
) -> None:
    items = [{"audio": str(CLIPS[n % 60]), "id": f"{n:04}"} for n in range(400)]
    (tmp_path / "archive.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    words = (tmp_path / "archive.jsonl", "--workers", 1, "-o")
    assert run(environment, *words, tmp_path / "job").returncode == 0
    with Door(PORT) as door:
        settings = {"s3": {"endpoint_url": f"http://127.0.0.1:{door.port}", **KEYS}}
        reaches = environment | config(tmp_path, settings)
        job = subprocess.Popen(
            command(*words, "s3://archive/job"), env=reaches, stderr=subprocess.PIPE, text=True
        )
        while not (files().exists("archive/job/job.sqlite") or job.poll() is not None):
            time.sleep(0.1)
        door.shut()
        _, told = job.communicate(timeout=PATIENCE_S)
        assert job.returncode == 7, told
        assert "s3://archive/job/" in told.splitlines()[-1]
        assert "run the same command again" in told.splitlines()[-1]
        door.open()
        again = run(reaches, *words, "s3://archive/job")
    assert again.returncode == 0, again.stderr
    names = sorted(path.name for path in (tmp_path / "job" / "transcripts").iterdir())
    assert len(names) == 2
    for name in names:
        written = files().cat_file(f"archive/job/transcripts/{name}")
        assert written == (tmp_path / "job" / "transcripts" / name).read_bytes()
    (tmp_path / "copy.sqlite").write_bytes(files().cat_file("archive/job/job.sqlite"))
    (n_tasks,) = tasks_of_runs(tmp_path / "job" / "job.sqlite")
    *_, last = tasks_of_runs(tmp_path / "copy.sqlite")
    assert 0 < last < n_tasks, "what was done before is not done again"


def tasks_of_runs(ledger: Path) -> list[int]:
    with closing(sqlite3.connect(ledger)) as database:
        return [row[0] for row in database.execute("SELECT tasks FROM runs ORDER BY begin")]
