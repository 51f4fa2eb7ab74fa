"""Segments of speech, frame by frame, and how little is enough."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.counted_frames import (
    FRAME,
    N,
    Q,
    S,
    Sure,
    Told,
    frames,
    segmenter,
    signals,
)
from tests.fakes.scripted_speech import quick
from whisper_hailo.live.segmenter import Segmenter


def test_before_anything_is_said_there_is_no_segment() -> None:
    cutter = segmenter()
    assert (cutter.n_samples, cutter.n_heard, cutter.start) == (0, 0, 0)
    assert (cutter.last_speech, cutter.audio.size, cutter.audio.dtype) == (
        0,
        0,
        np.float32,
    )


def test_one_frame_is_enough_where_no_speech_is_too_short() -> None:
    assert signals(segmenter(min_speech_s=0.0), N, S, N) == ".S."
    assert signals(segmenter(min_silence_s=0.032), S, S, N, S, S) == ".SE.S"


def test_segment_that_has_ended_leaves_no_speech_behind_it() -> None:
    assert signals(segmenter(), S, S, N, N, N, S, N, S, S) == ".S..E...S"


@pytest.mark.parametrize(
    ("pre_roll_s", "n_frames"), [(0.0, 2), (0.032, 3), (0.064, 4), (1.0, 8)]
)
def test_segment_has_its_pre_roll_and_no_more(pre_roll_s: float, n_frames: int) -> None:
    cutter = segmenter(pre_roll_s=pre_roll_s)
    assert signals(cutter, *[N] * 6, S, S) == ".......S"
    assert cutter.audio.size == n_frames * FRAME
    assert cutter.start == (8 - n_frames) * FRAME


def test_skipped_audio_is_no_pre_roll_and_resets_clicks() -> None:
    cutter = segmenter(pre_roll_s=0.32)
    signals(cutter, N, S)
    cutter.skip(100)
    assert signals(cutter, S, S) == ".S"
    assert cutter.n_samples == 2 * FRAME


def test_silence_of_a_second_resets_the_detector_once() -> None:
    class Counting(Told):
        n_resets = 0

        def reset(self) -> None:
            self.n_resets += 1

    detector = Counting()
    cutter = Segmenter(detector, quick())
    n_frames = 32  # a second
    for probability in [N] * (n_frames - 1):
        cutter.push(frames(probability)[0])
    assert detector.n_resets == 0
    for probability in [N] * (3 * n_frames):
        cutter.push(frames(probability)[0])
    assert detector.n_resets == 1
    for probability in [S] * 10 + [N] * 2 * n_frames:
        if cutter.push(frames(probability)[0]) == "ended":
            cutter.end_segment()
    assert detector.n_resets == 2


def test_lasting_speech_starts_and_silence_ends_a_segment() -> None:
    assert (
        signals(segmenter(), N, S, N, S, S, N, N, S, N, N, N, N, S) == "....S.....E.."
    )


def test_segment_goes_on_until_speech_is_well_below_threshold() -> None:
    assert signals(segmenter(), S, S, Q, Q, Q, Q, Q, Q) == ".S......"
    assert signals(segmenter(), S, S, 0.36, 0.34, 0.34, 0.34) == ".S...E"
    assert signals(segmenter(), Q, Q, Q, Q) == "...."
    assert signals(segmenter(), 0.5, 0.5) == ".S"
    assert signals(segmenter(), 0.49, 0.49) == ".."


def test_segment_begins_with_its_pre_roll_and_knows_its_place() -> None:
    """Frames 0 and 1 are before it; 2 is the pre-roll, 3 and 4 are speech."""
    cutter = segmenter()
    signals(cutter, N, N, N, S, S)
    assert (cutter.start, cutter.n_samples, cutter.n_heard) == (
        2 * FRAME,
        3 * FRAME,
        5 * FRAME,
    )
    assert cutter.audio[::FRAME].tolist() == pytest.approx([N, S, S])
    assert cutter.last_speech == 5 * FRAME
    signals(cutter, N, N)
    assert cutter.last_speech == 5 * FRAME
    assert signals(cutter, N) == "E"
    assert (cutter.n_samples, cutter.audio.size) == (0, 0)


def test_no_frame_of_a_segment_is_the_pre_roll_of_the_next() -> None:
    cutter = segmenter(pre_roll_s=0.32)
    assert signals(cutter, S, S, N, N, N, N, S, S) == ".S..E..S"
    assert cutter.start == 5 * FRAME


def test_cut_leaves_the_rest_as_a_segment_of_its_own() -> None:
    cutter = segmenter()
    signals(cutter, S, S, S, S)
    cutter.cut_segment(700)
    assert (cutter.start, cutter.n_samples) == (700, 4 * FRAME - 700)
    cutter.cut_segment(400)
    assert (cutter.start, cutter.audio.size) == (1100, 4 * FRAME - 1100)


def test_what_is_skipped_has_its_time_and_no_pre_roll() -> None:
    cutter = segmenter()
    signals(cutter, N, N)
    cutter.skip(1000)
    assert signals(cutter, S, S) == ".S"
    assert (cutter.start, cutter.n_heard) == (2 * FRAME + 1000, 4 * FRAME + 1000)


def test_quietest_place_is_where_sound_and_speech_are_least() -> None:
    cutter = segmenter(Sure())
    loud = np.concatenate(frames(*[S] * 20))
    loud[4000:5000] = 0.01
    for frame in loud.reshape(-1, FRAME):
        cutter.push(frame)
    place, loudness = cutter.find_quietest(1000, 9000)
    assert 4320 <= place <= 4680  # 20 ms away from the loud sound on both sides
    assert loudness == pytest.approx(0.01 * (0.5 + S), rel=1e-3)
    place, _ = cutter.find_quietest(6000, 9000)
    assert place == 6000
