"""Segments of speech, frame by frame."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.scripted_speech import (
    FRAME,
    N,
    Q,
    S,
    Sure,
    Told,
    frames,
    quick,
    segmenter,
    signals,
)
from whisper_hailo.live.segmenter import Segmenter


def test_segmenter_before_speech_is_empty() -> None:
    speech_segmenter = segmenter()
    assert speech_segmenter.n_samples == 0
    assert speech_segmenter.n_heard == 0
    assert speech_segmenter.start == 0
    assert speech_segmenter.last_speech == 0
    assert speech_segmenter.audio.size == 0
    assert speech_segmenter.audio.dtype == np.float32


def test_segmenter_min_speech_0_starts_with_one_frame() -> None:
    assert signals(segmenter(min_speech_s=0.0), N, S, N) == ".S."
    assert signals(segmenter(min_silence_s=0.032), S, S, N, S, S) == ".SE.S"


def test_segmenter_next_segment_needs_new_speech() -> None:
    assert signals(segmenter(), S, S, N, N, N, S, N, S, S) == ".S..E...S"


@pytest.mark.parametrize(
    ("pre_roll_s", "n_frames"), [(0.0, 2), (0.032, 3), (0.064, 4), (1.0, 8)]
)
def test_segmenter_pre_roll_is_bounded(pre_roll_s: float, n_frames: int) -> None:
    speech_segmenter = segmenter(pre_roll_s=pre_roll_s)
    assert signals(speech_segmenter, *[N] * 6, S, S) == ".......S"
    assert speech_segmenter.audio.size == n_frames * FRAME
    assert speech_segmenter.start == (8 - n_frames) * FRAME


def test_segmenter_skip_resets_speech_before_it() -> None:
    speech_segmenter = segmenter(pre_roll_s=0.32)
    signals(speech_segmenter, N, S)
    speech_segmenter.skip(100)
    assert signals(speech_segmenter, S, S) == ".S"
    assert speech_segmenter.n_samples == 2 * FRAME


def test_segmenter_second_of_silence_resets_detector() -> None:
    class Counting(Told):
        n_resets = 0

        def reset(self) -> None:
            self.n_resets += 1

    detector = Counting()
    speech_segmenter = Segmenter(detector, quick())
    n_frames = 32  # a second
    for probability in [N] * (n_frames - 1):
        speech_segmenter.push(frames(probability)[0])
    assert detector.n_resets == 0
    for probability in [N] * (3 * n_frames):
        speech_segmenter.push(frames(probability)[0])
    assert detector.n_resets == 1
    for probability in [S] * 10 + [N] * 2 * n_frames:
        if speech_segmenter.push(frames(probability)[0]) == "ended":
            speech_segmenter.end_segment()
    assert detector.n_resets == 2


def test_segmenter_lasting_speech_starts_a_segment() -> None:
    assert (
        signals(segmenter(), N, S, N, S, S, N, N, S, N, N, N, N, S) == "....S.....E.."
    )


def test_segmenter_ends_below_a_lower_threshold() -> None:
    assert signals(segmenter(), S, S, Q, Q, Q, Q, Q, Q) == ".S......"
    assert signals(segmenter(), S, S, 0.36, 0.34, 0.34, 0.34) == ".S...E"
    assert signals(segmenter(), Q, Q, Q, Q) == "...."
    assert signals(segmenter(), 0.5, 0.5) == ".S"
    assert signals(segmenter(), 0.49, 0.49) == ".."


def test_segmenter_segment_knows_start_and_last_speech() -> None:
    """Frames 0 and 1 are before it; 2 is the pre-roll, 3 and 4 are speech."""
    speech_segmenter = segmenter()
    signals(speech_segmenter, N, N, N, S, S)
    assert speech_segmenter.start == 2 * FRAME
    assert speech_segmenter.n_samples == 3 * FRAME
    assert speech_segmenter.n_heard == 5 * FRAME
    assert speech_segmenter.audio[::FRAME].tolist() == pytest.approx([N, S, S])
    assert speech_segmenter.last_speech == 5 * FRAME
    signals(speech_segmenter, N, N)
    assert speech_segmenter.last_speech == 5 * FRAME
    assert signals(speech_segmenter, N) == "E"
    assert speech_segmenter.n_samples == 0
    assert speech_segmenter.audio.size == 0


def test_segmenter_pre_roll_excludes_previous_segment() -> None:
    speech_segmenter = segmenter(pre_roll_s=0.32)
    assert signals(speech_segmenter, S, S, N, N, N, N, S, S) == ".S..E..S"
    assert speech_segmenter.start == 5 * FRAME


def test_segmenter_cut_leaves_the_rest_as_segment() -> None:
    speech_segmenter = segmenter()
    signals(speech_segmenter, S, S, S, S)
    speech_segmenter.cut_segment(700)
    assert speech_segmenter.start == 700
    assert speech_segmenter.n_samples == 4 * FRAME - 700
    speech_segmenter.cut_segment(400)
    assert speech_segmenter.start == 1100
    assert speech_segmenter.audio.size == 4 * FRAME - 1100


def test_segmenter_skipped_audio_takes_time() -> None:
    speech_segmenter = segmenter()
    signals(speech_segmenter, N, N)
    speech_segmenter.skip(1000)
    assert signals(speech_segmenter, S, S) == ".S"
    assert speech_segmenter.start == 2 * FRAME + 1000
    assert speech_segmenter.n_heard == 4 * FRAME + 1000


def test_find_quietest_weighs_loudness_and_speech() -> None:
    speech_segmenter = segmenter(Sure())
    loud = np.concatenate(frames(*[S] * 20))
    loud[4000:5000] = 0.01
    for frame in loud.reshape(-1, FRAME):
        speech_segmenter.push(frame)
    place, loudness = speech_segmenter.find_quietest(1000, 9000)
    assert 4320 <= place <= 4680  # 20 ms away from the loud sound on both sides
    assert loudness == pytest.approx(0.01 * (0.5 + S), rel=1e-3)
    place, _ = speech_segmenter.find_quietest(6000, 9000)
    assert place == 6000
