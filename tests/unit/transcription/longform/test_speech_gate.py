"""The gate that passes speech only, and the start of speech."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from tests.fakes.recording_layouts import PLAN, feed_of, heard
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.vad import FRAME_SAMPLES, LEVEL_SAMPLES, make_detector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import WHOLE, Clip, LongOptions
from whisper_hailo.transcription.longform.overlap import OverlapPlanner
from whisper_hailo.transcription.longform.planner import WindowPlanner
from whisper_hailo.transcription.longform.seek import SeekPlanner
from whisper_hailo.transcription.longform.speech_gate import SpeechGate
from whisper_hailo.transcription.recording import make_planner
from whisper_hailo_lab.clip_archives import unpack_clips


def taken(plan: WindowPlanner) -> list[tuple[int, FloatArray]]:
    """Starts and audio of all windows; one that seeks begins where the one before was taken."""
    windows = []
    for window in plan.windows():
        plan.take(heard(window))
        windows.append((round(window.start_s * SECOND), window.audio))
    return windows


def windows_of(
    name: str, audio: FloatArray, clips: tuple[Clip, ...] = WHOLE
) -> list[tuple[int, FloatArray]]:
    return taken(PLANS[name](feed_of(audio), clips, SpeechGate(Loud(), 0.5)))


PLANS: dict[
    str, Callable[[AudioBuffer, tuple[Clip, ...], SpeechGate], WindowPlanner]
] = {
    "overlap": lambda feed, clips, gate: OverlapPlanner(
        feed, clips, PLAN, 2.0, gate=gate
    ),
    "consecutive": lambda feed, clips, gate: OverlapPlanner(
        feed, clips, PLAN, 0.0, gate=gate
    ),
    "seek": lambda feed, clips, gate: SeekPlanner(feed, clips, PLAN, None, gate=gate),
}


def frame_before(position: int, start: int = 0) -> int:
    """The first whole frame of speech that begins at a position."""
    return start + -(-(position - start) // FRAME_SAMPLES) * FRAME_SAMPLES


def start_of(audio: FloatArray, start: int = 0, end: int | None = None) -> int | None:
    return SpeechGate(Loud(), 0.5).find_start(feed_of(audio), start, end)


def sound(*parts: tuple[float, float]) -> FloatArray:
    """Levels, each for so many seconds."""
    levels = [
        np.full(round(seconds * SECOND), level, np.float32) for level, seconds in parts
    ]
    return np.concatenate(levels)


class Loud:
    """Takes a frame for speech whose first sample is above a tenth; notes what it is asked."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.n_resets = 0

    def reset(self) -> None:
        self.n_resets += 1

    def probability(self, frame: FloatArray) -> float:
        assert frame.shape == (FRAME_SAMPLES,)
        self.n_asked += 1
        return 0.9 if frame[0] > 0.1 else 0.1


SECOND = SAMPLE_RATE_HZ


@pytest.mark.parametrize("level", [0.0, 0.05])
@pytest.mark.parametrize("silence_s", [1.5, 3.0, 61.7])
def test_find_start_is_half_a_second_before_speech(
    level: float, silence_s: float
) -> None:
    audio = sound((level, silence_s), (0.5, 5.0))
    expected = frame_before(round(silence_s * SECOND)) - SECOND // 2
    assert start_of(audio) == expected


@pytest.mark.parametrize("silence_s", [0.0, 0.3, 0.9])
def test_find_start_keeps_short_silence(silence_s: float) -> None:
    assert start_of(sound((0.05, silence_s), (0.5, 5.0))) == 0


def test_find_start_begins_at_the_given_sample() -> None:
    audio = sound((0.5, 2.0), (0.05, 4.0), (0.5, 3.0))
    start = 2 * SECOND + 77
    assert start_of(audio, start) == frame_before(6 * SECOND, start) - SECOND // 2
    assert start_of(audio, SECOND) == SECOND


@pytest.mark.parametrize("level", [0.0, 0.05])
def test_find_start_without_speech_is_none(level: float) -> None:
    assert start_of(sound((level, 20.0))) is None
    assert start_of(sound((level, 0.01))) is None
    assert start_of(np.empty(0, np.float32)) is None
    assert start_of(sound((level, 2.0)), 5 * SECOND) is None


def test_find_start_ignores_speech_behind_the_clip() -> None:
    audio = sound((0.05, 4.0), (0.5, 4.0))
    assert start_of(audio, 0, 3 * SECOND) is None
    assert start_of(audio, 0, 5 * SECOND) is not None


def test_find_start_finds_speech_at_the_end() -> None:
    """The last frame is filled up with zeros."""
    n_frames = 70
    audio = np.full(n_frames * FRAME_SAMPLES - 500, 0.05, np.float32)
    audio[(n_frames - 8) * FRAME_SAMPLES :] = 0.5
    assert start_of(audio) == (n_frames - 8) * FRAME_SAMPLES - SECOND // 2
    assert start_of(audio[:-FRAME_SAMPLES]) is None


def test_digital_silence_is_not_shown_to_the_detector() -> None:
    detector = Loud()
    gate = SpeechGate(detector, 0.5)
    assert gate.find_start(feed_of(sound((0.0, 30.0))), 0) is None
    assert detector.n_asked == 0
    assert detector.n_resets == 1
    assert gate.find_start(feed_of(sound((0.0, 30.0), (0.5, 1.0))), 0) is not None
    assert detector.n_asked <= 9


def test_detector_is_reset_for_each_window() -> None:
    detector = Loud()
    gate = SpeechGate(detector, 0.5)
    plan = OverlapPlanner(feed_of(sound((0.5, 40.0))), WHOLE, PLAN, 0.0, gate=gate)
    n_windows = len(list(plan.windows()))
    assert n_windows == 5
    assert detector.n_resets >= n_windows
    assert detector.n_asked <= 8 * detector.n_resets, "a quarter of a second is enough"


def test_long_silence_is_searched_in_bounded_memory() -> None:
    """Of 30 s, whose level is measured: held, joined and made absolute; ten minutes have 38 MB."""
    for level in (0.0, 0.05):
        feed = AudioBuffer(np.full(SECOND, level, np.float32) for _ in range(600))
        tracemalloc.start()
        try:
            assert SpeechGate(Loud(), 0.5).find_start(feed, 0) is None
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert feed.n_samples == 600 * SECOND
        assert most_bytes < 4 * 4 * LEVEL_SAMPLES


@pytest.mark.parametrize("name", PLANS)
def test_gated_windows_have_audio_of_exact_positions(name: str) -> None:
    """Noise, so that no two stretches are alike."""
    audio = sound((0.01, 13.3), (0.5, 6.0), (0.01, 25.0), (0.5, 12.0), (0.01, 9.0))
    audio = audio * (1 + 0.1 * np.random.default_rng(0).random(audio.size, np.float32))
    gated = windows_of(name, audio)
    inside = np.zeros(audio.size, bool)
    for start, samples in gated:
        np.testing.assert_array_equal(samples, audio[start : start + samples.size])
        inside[start : start + samples.size] = True
    assert gated[0][0] == pytest.approx(12.8 * SECOND, abs=FRAME_SAMPLES + 160)
    assert inside[audio > 0.1].all(), "all speech is in some window"
    assert not inside[24 * SECOND : 43 * SECOND].any(), "and silence in none"
    assert len(gated) <= 4


@pytest.mark.parametrize("name", PLANS)
def test_recordings_without_speech_have_no_window(name: str) -> None:
    assert windows_of(name, sound((0.05, 45.0))) == []
    assert windows_of(name, sound((0.0, 45.0))) == []


@pytest.mark.parametrize("name", PLANS)
def test_windows_of_clips_end_with_them(name: str) -> None:
    audio = sound((0.05, 20.0), (0.5, 20.0))
    clips = (
        Clip(0, 5 * SECOND),
        Clip(15 * SECOND, 22 * SECOND),
        Clip(30 * SECOND, 33 * SECOND),
    )
    (first, first_audio), (second, second_audio) = windows_of(name, audio, clips)
    assert first == pytest.approx(19.5 * SECOND, abs=FRAME_SAMPLES + 160)
    assert first + first_audio.size == 22 * SECOND
    assert second == 30 * SECOND
    assert second_audio.size == 3 * SECOND


def test_skip_silence_makes_the_gate() -> None:
    """Noise is no speech for the real detector; whoever wants it transcribed switches it off."""
    noise = 0.05 * np.random.default_rng(0).standard_normal(4 * SECOND).astype(
        np.float32
    )
    for strategy in ("overlap", "consecutive", "seek"):
        for skips, n_windows in ((True, 0), (False, 1)):
            long = LongOptions(strategy, skip_silence=skips)
            plan = make_planner(feed_of(noise), PLAN, DecodingOptions(), long)
            assert len(taken(plan)) == n_windows


def test_silero_finds_speech_behind_silence() -> None:
    speech = load_audio(unpack_clips() / "seen" / "seen-000.ogg")
    hum = 0.001 * np.random.default_rng(0).standard_normal(10 * SECOND).astype(
        np.float32
    )
    alone = SpeechGate(make_detector(), 0.35).find_start(feed_of(speech), 0)
    assert alone is not None
    start = SpeechGate(make_detector(), 0.35).find_start(
        feed_of(np.concatenate([hum, speech])), 0
    )
    assert start == pytest.approx(10 * SECOND - SECOND // 2, abs=SECOND)
