"""Long recordings, batches, trees, channels and prompts, by the real command."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import DEMO, DEMO_LINES, DEMO_TEXT, Command, one_line
from whisper_hailo_lab.clip_archives import unpack_clips

SEEN = unpack_clips() / "seen"
MICRO = ("transcribe", "--model", "micro", "--threads", 1)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders with clips."""
    root = tmp_path_factory.mktemp("tree")
    for index, clip in enumerate(sorted(SEEN.glob("*.ogg"))[:6]):
        folder = root / ("a" if index < 3 else "b/c")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip, folder)
    return root


def texts(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*.txt"))
    }


def test_transcribe_batches_equal_single_windows_and_resume(
    whisper_hailo: Command, tree: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    together = tmp_path / "together"
    assert whisper_hailo(*MICRO, "--output-dir", alone, tree).returncode == 0
    assert (
        whisper_hailo(
            *MICRO, "--output-dir", together, "--batch-size", 4, tree
        ).returncode
        == 0
    )
    straight = texts(alone)
    assert len(straight) == 6
    assert any(name.startswith("b/c/") for name in straight)
    assert texts(together) == straight
    for name in list(straight)[::2]:
        (alone / name).unlink()
    result = whisper_hailo(*MICRO, "--output-dir", alone, "--skip-existing", tree)
    assert "3 of 6" in result.stderr
    assert texts(alone) == straight


def test_transcribe_reads_standard_input(whisper_hailo: Command) -> None:
    with DEMO.open("rb") as file:
        result = whisper_hailo(*MICRO, "-", stdin=file)
    assert result.stdout.strip() == DEMO_LINES
    piped = whisper_hailo(*MICRO, "--json", "-", text=False, input=DEMO.read_bytes())
    assert json.loads(piped.stdout)["audio"] == "stdin"
    assert json.loads(piped.stdout)["text"] == DEMO_TEXT


def test_transcribe_split_channels_are_speakers(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    first, second = (
        soundfile.read(p, dtype="float32")[0] for p in sorted(SEEN.glob("*.ogg"))[:2]
    )
    both = np.zeros((first.size + second.size, 2), np.float32)
    both[: first.size, 0] = first
    both[first.size :, 1] = second
    soundfile.write(tmp_path / "call.wav", both, 16_000)
    result = whisper_hailo(
        *MICRO, "--channels", "split", "--json", tmp_path / "call.wav"
    )
    segments = json.loads(result.stdout)["segments"]
    assert {segment["speaker"] for segment in segments} == {0, 1}
    starts = [segment["start"] for segment in segments]
    assert starts == sorted(starts)
    mono = whisper_hailo(*MICRO, "--channels", "split", DEMO)
    assert mono.returncode == 3
    assert "--channels split" in one_line(mono)


def test_transcribe_word_times_rise_within_the_recording(
    whisper_hailo: Command,
) -> None:
    printed = json.loads(
        whisper_hailo(*MICRO, "--word-timestamps", "--json", DEMO).stdout
    )
    words = [word for segment in printed["segments"] for word in segment["words"]]
    assert "".join(word["word"] for word in words).split() == printed["text"].split()
    assert all(
        0 <= word["start"] <= word["end"] <= printed["duration"] for word in words
    )
    assert all(0 <= word["probability"] <= 1 for word in words)


def test_transcribe_clips_behind_the_end_are_warned_of(whisper_hailo: Command) -> None:
    result = whisper_hailo(*MICRO, "--clip-timestamps", "0,2,500,510", DEMO)
    assert result.returncode == 0
    assert result.stdout.strip()
    assert re.search(r"--clip-timestamps .* 500 s", result.stderr)


@pytest.mark.parametrize("kind", ["blink", "silence", "clipped", "offset"])
def test_transcribe_odd_sounds_have_their_whole_duration(
    whisper_hailo: Command, tmp_path: Path, kind: str
) -> None:
    speech = soundfile.read(DEMO, dtype="float32")[0]
    audio = {
        "blink": speech[:160],
        "silence": np.zeros(40 * 16_000, np.float32),
        "clipped": np.clip(30 * speech, -1, 1),
        "offset": speech * 0.5 + 0.4,
    }[kind]
    soundfile.write(tmp_path / "odd.wav", audio, 16_000)
    result = whisper_hailo(*MICRO, "--fallback", 0.5, "--json", tmp_path / "odd.wav")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["duration"] == pytest.approx(audio.size / 16_000)


def test_compare_padding_grid_has_a_row_for_each_setting(
    whisper_hailo: Command,
) -> None:
    result = whisper_hailo(
        "compare", "padding", SEEN, "--grid", "--model", "micro", "--limit", 2,
        "--pad-to", "0,1500", "--repetition-penalty", "1", "--eot-boost", "0",
        "--zero-rows", "1500", "--json",
    )  # fmt: skip
    rows = json.loads(result.stdout)["rows"]
    assert rows[0]["value"] == "conservative"
    by_name = {row["value"]: row for row in rows}
    real = by_name["real zeros to 1500"]
    free = by_name["pad 1500, penalty 1, boost 0"]
    assert real["wer"] == free["wer"]
