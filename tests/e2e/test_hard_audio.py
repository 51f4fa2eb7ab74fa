"""Difficult audio and odd prompts, through the real command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import DEMO, Command
from tests.fakes.sounds import music
from tests.shared import WHOLE_WINDOWS
from whisper_hailo import Transcriber
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import DEFAULT_TEMPERATURES, DecodingOptions
from whisper_hailo_lab.clip_archives import unpack_clips

DATA = unpack_clips()
MICRO = ("transcribe", "--model", "micro", "--threads", 1)


def read_clip(path: Path) -> FloatArray:
    audio: FloatArray = soundfile.read(path, dtype="float32")[0]
    return audio


@pytest.fixture(scope="module")
def transcriber() -> Iterator[Transcriber]:
    with Transcriber.from_model("micro", threads=1) as opened:
        yield opened


def test_transcribe_music_has_rising_times(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "music.wav", music(40.0), 16_000)
    decode_all = ("--timestamps", "--no-skip-silence", "--json")
    result = whisper_hailo(*MICRO, *decode_all, tmp_path / "music.wav")
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    edges = [edge for s in printed["segments"] for edge in (s["start"], s["end"])]
    assert edges
    assert edges == sorted(edges)
    assert all(0 <= edge <= 40 for edge in edges)
    for segment in printed["segments"]:
        # Repetitive text was tried again up to the highest temperature.
        assert (
            segment["compression_ratio"] <= 2.4
            or segment["temperature"] == DEFAULT_TEMPERATURES[-1]
        )


def test_transcribe_vad_of_music_and_silence_has_no_text(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    quiet = np.zeros(600 * 16_000, np.float32)
    soundfile.write(tmp_path / "hold.wav", np.concatenate([music(20.0), quiet]), 16_000)
    result = whisper_hailo(*MICRO, "--long", "vad", tmp_path / "hold.wav")
    assert result.returncode == 0
    assert result.stdout.strip() == ""
    assert " 620.0 s" in result.stderr


def test_transcribe_offset_and_clipping_keep_words(
    transcriber: Transcriber,
) -> None:
    audio = read_clip(DEMO)
    clean = transcriber.transcribe(audio).text.split()
    louder = np.clip(2 * audio / np.abs(audio).max(), -1, 1)
    for damaged, most in ((audio * 0.5 + 0.4, 0), (louder, len(clean) // 3)):
        words = transcriber.transcribe(damaged).text.split()
        assert len(set(clean) - set(words)) <= most


@pytest.mark.parametrize("index", range(3))
def test_transcribe_detects_the_language_of_each_window(index: int) -> None:
    """Each window has the language that its clip has alone."""
    with Transcriber.from_model("micro", window_s=10, threads=1) as transcriber:
        check_languages_of_windows(transcriber, index)


def check_languages_of_windows(transcriber: Transcriber, index: int) -> None:
    options = DecodingOptions(language="auto", detect_each_window=True)
    parts = [
        read_clip(sorted((DATA / name).glob("*.ogg"))[index])
        for name in ("german", "seen")
    ]
    padded = [np.pad(part, (0, 9 * 16_000 - part.size)) for part in parts]
    whole = transcriber.transcribe(np.concatenate(padded), options, long=WHOLE_WINDOWS)
    alone = [
        transcriber.transcribe(part, options, long=WHOLE_WINDOWS) for part in padded
    ]
    assert [t.language for t in alone] == ["de", "en"]
    assert whole.language == "de"
    assert [s.language for s in whole.segments] == [
        s.language for t in alone for s in t.segments
    ]
    assert whole.text == " ".join(t.text for t in alone)


def test_transcribe_accepts_any_script_and_cuts_long_prompts(
    whisper_hailo: Command,
) -> None:
    long = "a word " * 1000
    result = whisper_hailo(
        *MICRO, "--hotwords", "😀 ก ข", "--initial-prompt", long, DEMO, DEMO
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("--initial-prompt") == 1
