"""Pauses by loudness alone, and windows that end in them."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.overlap import OverlapPlan, find_silence
from whisper_hailo.transcription.longform.plan import WHOLE, Clip

PLAN = WindowPlan(10.0, 1.0)
FROM = 6 * SAMPLE_RATE_HZ


def talk(*pauses_s: tuple[float, float], seconds: float = 9.0, floor: float = 0.001) -> FloatArray:
    """Noise as loud as speech but for the pauses, and for as much silence as any speech has."""
    samples = 0.1 * np.random.default_rng(1).standard_normal(round(seconds * SAMPLE_RATE_HZ))
    for start_s, end_s in ((1.0, 2.2), *pauses_s):
        samples[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)] *= floor / 0.1
    return samples.astype(np.float32)


def seconds(position: int | None) -> float:
    assert position is not None
    return position / SAMPLE_RATE_HZ


def test_the_longest_pause_of_the_last_part_is_taken_in_its_middle() -> None:
    audio = talk((3.0, 5.0), (6.5, 6.8), (7.5, 8.1))
    assert seconds(find_silence(audio, FROM)) == pytest.approx(7.8, abs=0.02)


def test_in_noise_as_in_silence() -> None:
    for floor in (0.0, 0.001, 0.03):
        assert seconds(find_silence(talk((7.0, 7.5), floor=floor), FROM)) == pytest.approx(
            7.25, abs=0.03
        )


@pytest.mark.parametrize(
    "audio",
    [
        talk((3.0, 5.0)),
        talk((7.0, 7.12)),
        np.zeros(9 * SAMPLE_RATE_HZ, np.float32),
        talk(floor=0.1),
        talk()[:100],
    ],
    ids=["too early", "a closure", "silence", "steady noise", "a blink"],
)
def test_no_pause(audio: FloatArray) -> None:
    assert find_silence(audio, min(FROM, audio.size)) is None


def loud(*frames_db: float) -> FloatArray:
    """Frames of 20 ms, each of one loudness in dB of full scale."""
    samples = np.repeat(10 ** (np.array(frames_db) / 20), 320)
    return (samples * np.resize([1, -1], samples.size)).astype(np.float32)


def steps(n_loud: int, *rest_db: float) -> FloatArray:
    """Frames of 0 dB, then others, then enough silence that the quiet is at -40 dB."""
    return loud(*[0.0] * n_loud, *rest_db, *[0.0] * n_loud, *[-40.0] * n_loud)


@pytest.mark.parametrize(
    ("pause_db", "n_frames", "expected"),
    [
        ([-40.0] * 9, 9, None),
        ([-40.0] * 10, 10, 45),
        ([-40.0] * 11, 11, 45.5),
        ([-30.5] * 10, 10, 45),
        ([-29.5] * 10, 10, None),
        ([-40.0] * 5 + [0.0] + [-40.0] * 5, 11, None),
    ],
    ids=["9 frames", "10", "11", "as quiet as is needed", "not so", "interrupted"],
)
def test_a_pause_is_ten_frames_in_the_lowest_quarter_of_the_loudness(
    pause_db: list[float], n_frames: int, expected: float | None
) -> None:
    """Quiet is -40 dB and loud 0: a pause lies below -30 dB; the end of the audio is cut off."""
    audio = steps(40, *pause_db)[: (80 + n_frames) * 320 + 319]
    quiet = loud(*[-40.0] * 30)  # early, so that it is no pause
    whole = np.concatenate([quiet, audio])
    found = find_silence(whole, 30 * 320)
    assert found == (None if expected is None else round((30 + expected) * 320))


@pytest.mark.parametrize(("start", "begins"), [(40 * 320, 40), (40 * 320 + 1, 41), (41 * 320, 41)])
def test_only_whole_frames_behind_the_start_are_looked_at(start: int, begins: int) -> None:
    """The pause goes from frame 40 to frame 60."""
    audio = loud(*[0.0] * 40, *[-40.0] * 20, *[0.0] * 40)
    assert find_silence(audio, start) == (begins + 60) * 160


def test_of_pauses_of_one_length_the_first_is_taken_and_else_the_longest() -> None:
    audio = loud(*[0.0] * 20, *[-40.0] * 12, *[0.0] * 9, *[-40.0] * 12, *[0.0] * 20)
    assert find_silence(audio, 0) == 26 * 320
    audio = loud(*[0.0] * 20, *[-40.0] * 12, *[0.0] * 9, *[-40.0] * 13, *[0.0] * 20)
    assert find_silence(audio, 0) == round(47.5 * 320)
    audio = loud(*[0.0] * 20, *[-40.0] * 4, *[0.0] * 9, *[-40.0] * 12, *[0.0] * 20)
    assert find_silence(audio, 0) == 39 * 320, "shorter ones beside it do not matter"


@pytest.mark.parametrize(("apart_db", "is_found"), [(6.5, True), (5.5, False)])
def test_quiet_and_loud_lie_six_decibels_apart(apart_db: float, is_found: bool) -> None:
    audio = loud(*[-20.0] * 30, *[-20.0 - apart_db] * 15, *[-20.0] * 30)
    assert (find_silence(audio, 0) is not None) is is_found


def test_a_pause_may_reach_the_end() -> None:
    assert find_silence(loud(*[0.0] * 40, *[-40.0] * 20), 0) == 50 * 320
    assert find_silence(loud(*[-40.0] * 20, *[0.0] * 40), 0) == 10 * 320
    assert find_silence(np.empty(0, np.float32), 0) is None
    assert find_silence(loud(0.0, -40.0), 640) is None


def test_windows_meet_in_a_pause_and_overlap_elsewhere() -> None:
    audio = talk((7.0, 7.6), (26.0, 26.1), seconds=30.0)
    feed = AudioBuffer(iter(np.array_split(audio, 30)))
    windows = list(OverlapPlan(feed, WHOLE, PLAN, 2.0).windows())
    first, second, third = windows[:3]
    assert first.end_s == pytest.approx(7.3, abs=0.02)
    assert second.start_s == pytest.approx(first.end_s)
    assert (first.needs_words, second.needs_words) == (False, True)
    assert third.start_s == pytest.approx(second.end_s - 2.0)
    assert windows[-1].end_s == pytest.approx(30.0)
    side_by_side = AudioBuffer(iter(np.array_split(audio, 30)))
    plain = list(OverlapPlan(side_by_side, WHOLE, PLAN, 0.0).windows())
    assert [window.start_s for window in plain] == [0.0, 9.0, 18.0, 27.0]


def windows(audio: FloatArray, clips: tuple[Clip, ...] = WHOLE) -> list[Window]:
    feed = AudioBuffer(iter(np.array_split(audio, 7)))
    return list(OverlapPlan(feed, clips, PLAN, 2.0).windows())


@pytest.mark.parametrize(("pause_s", "is_taken"), [(6.0, True), (5.79, False)])
def test_pauses_are_looked_for_in_the_last_three_seconds(pause_s: float, is_taken: bool) -> None:
    """One and a half overlaps before the end of the window's 9 s; of each pause a part is seen."""
    first, second, *_ = windows(talk((pause_s, pause_s + 0.4), seconds=20.0))
    assert (first.end_s < 9.0) is is_taken
    assert second.start_s == pytest.approx(first.end_s if is_taken else 7.0)


@pytest.mark.parametrize(("n_samples", "n_windows"), [(144_000, 1), (144_159, 1), (144_160, 2)])
def test_the_last_window_of_a_recording_or_a_clip_ends_in_no_pause(
    n_samples: int, n_windows: int
) -> None:
    """Only where a whole frame follows does a window end in the pause before its end."""
    audio = talk((8.4, 8.8), seconds=20.0)
    for found in (windows(audio[:n_samples]), windows(audio, (Clip(0, n_samples),))):
        assert len(found) == n_windows
        assert found[0].end_s == pytest.approx(9.0 if n_windows == 1 else 8.6, abs=0.02)
        assert found[-1].end_s == pytest.approx(n_samples // 160 * 160 / SAMPLE_RATE_HZ)
        assert not any(window.needs_words for window in found), "a pause parts them"


def test_a_clip_s_first_window_shares_nothing_with_the_clip_before() -> None:
    clips = (Clip(0, 160_000), Clip(170_000, 330_000))
    steady = 0.1 * np.random.default_rng(0).standard_normal(340_000).astype(np.float32)
    found = windows(steady, clips)
    starts = [round(window.start_s * SAMPLE_RATE_HZ) for window in found]
    assert starts == [0, 112_000, 170_000, 282_000]
    assert [window.needs_words for window in found] == [True] * 4
    short = windows(steady, (Clip(0, 1), Clip(5, 6)))
    assert [(window.audio.size, window.needs_words) for window in short] == [(1, False)] * 2


def test_loudness_is_that_of_a_sample_and_silence_of_samples_is_at_minus_100_db() -> None:
    """A quarter of the way up to 0 dB: a pause is no louder than -75 dB."""
    for pause_db, expected in ((-80.0, 66 * 320), (-70.0, None)):
        audio = loud(*[-200.0] * 20, *[0.0] * 40, *[pause_db] * 12, *[0.0] * 40)
        assert find_silence(audio, 40 * 320) == expected
