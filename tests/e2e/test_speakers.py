"""Speakers by the real command and the real models, where those are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import DEMO, Command
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.speakers.models import EMBEDDING, FOLDER_VARIABLE, SEGMENTATION

ROOT = Path(__file__).parents[2]
MODELS = Path(os.environ.get(FOLDER_VARIABLE) or ROOT.parent / "shared" / "speakers")
SWITCHES_S = (5.0, 11.0, 17.0)
"""Where the other person of the talk takes over."""

needs_models = pytest.mark.skipif(
    not (MODELS / SEGMENTATION.names[0]).is_file()
    or not (MODELS / EMBEDDING.names[0]).is_file(),
    reason=f"no speaker models: name their folder in {FOLDER_VARIABLE}",
)


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording in which two people speak in turns."""
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    first = load_audio(ROOT / "tests" / "data" / "jfk.flac")
    second = load_audio(DEMO)
    cut = round(SWITCHES_S[0] * SAMPLE_RATE_HZ)
    pause = round((SWITCHES_S[1] - SWITCHES_S[0]) * SAMPLE_RATE_HZ)
    audio = np.concatenate([first[:cut], second[:pause], first[cut:], second[pause:]])
    soundfile.write(path, audio, SAMPLE_RATE_HZ)
    return path


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
