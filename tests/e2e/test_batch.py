"""An archive on this machine: killed, filled with poison, and the same in the end."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import Command, one_line
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.clip_archives import unpack_clips

CLIPS = sorted((unpack_clips() / "seen").glob("*.ogg"))
OPTIONS = ("--model", "micro", "--language", "en", "--format", "srt")


def archive(folder: Path) -> Path:
    """Thirty files, two of which are no recordings."""
    folder.mkdir()
    for clip in CLIPS[:28]:
        (folder / clip.name).symlink_to(clip)
    (folder / "poison.wav").write_bytes(b"no sound")
    (folder / "empty.flac").touch()
    return folder


def results(folder: Path) -> dict[str, bytes]:
    found = [
        path
        for name in ("transcripts", "srt", "failures")
        for path in (folder / name).rglob("*.*")
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def straight(
    whisper_hailo: Command, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("straight")
    source = archive(folder / "archive")
    run = whisper_hailo(
        "batch", source, *OPTIONS, "-o", folder / "job", "--workers", 1, "-q"
    )
    assert (run.returncode, run.stdout) == (3, "")
    return source, results(folder / "job")


def test_each_recording_is_transcribed_and_others_are_listed(
    whisper_hailo: Command, straight: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    source, written = straight
    lines = written["transcripts/part-00000.jsonl"].splitlines()
    records = {record["id"]: record for record in map(json.loads, lines)}
    assert list(records) == sorted(path.stem for path in source.iterdir())
    clip = CLIPS[3]
    alone = whisper_hailo(
        "transcribe", clip, "--model", "micro", "--language", "en", "-q"
    )
    assert records[clip.stem]["text"] == " ".join(alone.stdout.split("\n")).strip()
    assert "-->" in written[f"srt/{clip.stem}.srt"].decode()
    job = source.parent / "job"
    listed = job / "failures" / "part-00000.jsonl"
    failures = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [(one["id"], one["error"]["kind"]) for one in failures] == [
        ("empty", "audio"),
        ("poison", "audio"),
    ]
    status = whisper_hailo("batch", "status", job)
    assert status.stdout.startswith("28 of 30 items done, 2 failed, 0 left\n")
    told = json.loads(whisper_hailo("batch", "status", job, "--json").stdout)
    assert (told["items"], told["remaining"], told["failures"]) == (
        30,
        0,
        {"audio": 2},
    )
    # What failed is a manifest of its own.
    again = whisper_hailo("batch", listed, *OPTIONS, "-o", tmp_path / "again", "-q")
    assert again.returncode == 3
    told = json.loads(
        whisper_hailo("batch", "status", tmp_path / "again", "--json").stdout
    )
    assert (told["items"], told["failed"]) == (2, 2)


def test_recording_that_is_not_cut_says_what_transcribe_says(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    sounds = [load_audio(clip) for clip in CLIPS[:20]]
    long = tmp_path / "long.wav"  # of many windows
    soundfile.write(long, np.concatenate(sounds), SAMPLE_RATE_HZ, subtype="PCM_16")
    recordings = [*CLIPS[:20], long]
    lines = [json.dumps({"audio": str(path), "id": path.stem}) for path in recordings]
    manifest = tmp_path / "archive.jsonl"
    manifest.write_text("\n".join(lines))
    words = ("--model", "micro", "--language", "en", "-q")
    job = ("-o", tmp_path / "job", "--batch-size", 1)
    assert whisper_hailo("batch", manifest, *words, *job).returncode == 0
    files = ("-f", "json", "-o", tmp_path / "texts", "--batch-size", 1)
    assert whisper_hailo("transcribe", *recordings, *words, *files).returncode == 0
    written = (
        (tmp_path / "job" / "transcripts" / "part-00000.jsonl").read_text().splitlines()
    )
    for path, line in zip(recordings, written, strict=True):
        said = json.loads(line)
        straight = json.loads((tmp_path / "texts" / f"{path.stem}.json").read_text())
        spoken = [
            (one["start"], one["end"], one["text"]) for one in straight["segments"]
        ]
        assert said["text"] == straight["text"]
        assert [
            (one["start"], one["end"], one["text"]) for one in said["segments"]
        ] == spoken
    assert said["duration"] > 60


def test_killed_again_and_again_it_gives_the_same_bytes(
    environment: dict[str, str], straight: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    source, written = straight
    words = ("batch", source, *OPTIONS, "-o", tmp_path / "job", "--workers", 2, "-q")
    command = [sys.executable, "-m", "whisper_hailo", *map(str, words)]
    for wait_s in (1.0, 3.0, 5.0):
        run = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        time.sleep(wait_s)
        for child in _children(run.pid)[:1]:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.2)
        run.kill()
        run.wait()
    last = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert last.returncode == 3, last.stderr
    assert results(tmp_path / "job") == written


def _little_room() -> None:
    """Writing more than 12 KiB to one file fails, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_288, 12_288))


def test_full_disk_is_one_line_and_the_same_command_goes_on(
    environment: dict[str, str], straight: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    source, written = straight
    words = ("batch", source, *OPTIONS, "-o", tmp_path / "job", "--workers", 1, "-q")
    command = [sys.executable, "-m", "whisper_hailo", *map(str, words)]
    full = subprocess.run(
        command, env=environment, capture_output=True, text=True, preexec_fn=_little_room,
        check=False,
    )  # fmt: skip
    assert full.returncode == 7
    (line,) = full.stderr.splitlines()
    assert "run the same command again" in line
    assert not [
        name for name in results(tmp_path / "job") if name.startswith("transcripts")
    ]
    again = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert again.returncode == 3, again.stderr
    assert results(tmp_path / "job") == written


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def test_what_cannot_be_done_is_one_line(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    for words, code, message in (
        (("batch", tmp_path), 2, "--output-dir is missing"),
        (
            ("batch", tmp_path, "-o", tmp_path / "o", "-m", "micro"),
            3,
            "lists no recordings",
        ),
        (("batch", "status", tmp_path), 2, "holds no job"),
        (
            ("batch", "a", "b", "-o", tmp_path / "o", "-m", "micro"),
            3,
            "a does not exist",
        ),
        (
            ("batch", tmp_path, "-o", "o", "--address", "x"),
            2,
            "--address needs --engine ray",
        ),
        (("batch", tmp_path, "-o", "o", "--workers", 0), 2, "--workers is 0"),
    ):
        result = whisper_hailo(*words)
        assert (result.returncode, message in one_line(result)) == (code, True), (
            result.stderr
        )
