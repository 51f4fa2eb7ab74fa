"""Jobs on a Ray cluster of this machine: `make lab NAME=cluster`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whisper_hailo_lab.clip_archives import unpack_clips

ROOT = Path(__file__).parents[2]
CLIPS = sorted((unpack_clips() / "seen").glob("*.ogg"))
OPTIONS = ("--model", "micro", "--language", "en", "-q")
PATIENCE_S = 900


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "whisper_hailo", "batch", *map(str, words), *OPTIONS]


def run(
    environment: dict[str, str], *words: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user's, with a cache of its own."""
    home = tmp_path_factory.mktemp("home")
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "WHISPER_HAILO_CACHE": str(home / "cache"),
        "HF_HUB_OFFLINE": "1",
        "RAY_AUTH_MODE": "token",
        # On a busy machine a node takes longer than Ray's 30 s to start.
        "RAY_raylet_start_wait_time_s": "300",
    }


@pytest.fixture(scope="session")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty recordings and a file that is none."""
    folder = tmp_path_factory.mktemp("archive")
    (folder / "poison.wav").write_bytes(b"no sound")
    items = [{"audio": str(clip), "id": clip.name} for clip in CLIPS[:60]]
    lines = [
        json.dumps(item) for item in (*items[:20], {"audio": "poison.wav"}, *items[20:])
    ]
    (folder / "archive.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "archive.jsonl"


@pytest.fixture(scope="session")
def straight(
    environment: dict[str, str],
    manifest: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> bytes:
    """Results of the local engine."""
    job = tmp_path_factory.mktemp("straight") / "job"
    assert run(environment, manifest, "-o", job).returncode == 3
    return transcripts(job)


def transcripts(job: Path) -> bytes:
    return b"".join(
        path.read_bytes() for path in sorted((job / "transcripts").iterdir())
    )


ADDRESS = "127.0.0.1:6397"


def ray(environment: dict[str, str], *words: str) -> None:
    """Run a command of Ray."""
    env = {**environment, "RAY_USAGE_STATS_ENABLED": "0"}
    subprocess.run(["ray", *words], env=env, check=True, capture_output=True)


def add_node(environment: dict[str, str], n_cpus: int = 1) -> None:
    """Start a node of the cluster on this machine."""
    words = ("--num-cpus", str(n_cpus), "--object-store-memory", "200000000")
    ray(environment, "start", "--address", ADDRESS, *words)


@pytest.fixture
def head(environment: dict[str, str]) -> Iterator[str]:
    """A cluster without a processor; its address."""
    ray(environment, "get-auth-token", "--generate")
    words = ("--port", "6397", "--include-dashboard", "false", "--num-cpus", "0")
    ray(environment, "start", "--head", *words, "--object-store-memory", "200000000")
    yield ADDRESS
    ray(environment, "stop", "--force")


@pytest.fixture
def cluster(environment: dict[str, str], head: str) -> str:
    """A head and three nodes on this machine; its address."""
    for _ in range(3):
        add_node(environment)
    return head
