"""Speakers by the real command and the real models, where those are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Command
from tests.e2e.two_speakers import MODELS, SWITCHES_S, needs_models, write_talk
from whisper_hailo.speakers.models import FOLDER_VARIABLE


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording in which two people speak in turns."""
    return write_talk(tmp_path_factory.mktemp("talk") / "talk.wav")


@needs_models
def test_transcribe_speakers_tells_two_people_apart(
    whisper_hailo: Command, talk: Path
) -> None:
    options = ("--speakers", "--speaker-models", MODELS, "--json")
    result = whisper_hailo("transcribe", "--model", "micro", *options, talk)
    assert result.returncode == 0
    segments = json.loads(result.stdout)["segments"]
    assert {segment["speaker"] for segment in segments} == {0, 1}
    words = [word for segment in segments for word in segment["words"]]
    n_right = 0
    for word in words:
        middle_s = (word["start"] + word["end"]) / 2
        n_right += (
            word["speaker"] == sum(middle_s > time_s for time_s in SWITCHES_S) % 2
        )
    assert n_right >= 0.9 * len(words)


@needs_models
def test_transcribe_speakers_are_voices_in_subtitles(
    whisper_hailo: Command, talk: Path, tmp_path: Path
) -> None:
    options = (
        "--speakers",
        "2",
        "--speaker-names",
        "Kennedy,Anna",
        "--speaker-models",
        MODELS,
    )
    outputs = ("--format", "vtt,srt", "--output-dir", tmp_path)
    assert (
        whisper_hailo(
            "transcribe", "--model", "micro", *options, *outputs, talk
        ).returncode
        == 0
    )
    assert "<v Kennedy>" in (tmp_path / "talk.vtt").read_text()
    assert "\nAnna: " in (tmp_path / "talk.srt").read_text()


def test_transcribe_speakers_offline_names_the_option(
    whisper_hailo: Command, talk: Path
) -> None:
    result = whisper_hailo(
        "transcribe", "--model", "micro", "--speakers", talk,
        env={"HF_HUB_OFFLINE": "1", FOLDER_VARIABLE: ""},
    )  # fmt: skip
    assert result.returncode == 5
    assert "--speaker-models" in result.stderr
