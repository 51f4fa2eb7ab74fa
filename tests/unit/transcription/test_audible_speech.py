"""Speech in doubtful windows: how much of it counts, and how little."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.audio.vad import FRAME_SAMPLES
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.transcription.audible_speech import has_speech


class Loudness:
    """Takes what is loud for speech."""

    def __init__(self) -> None:
        self.n_frames = 0

    def reset(self) -> None:
        """Begin anew."""
        self.n_frames = 0

    def probability(self, frame: FloatArray) -> float:
        self.n_frames += 1
        return float(np.abs(frame).max() > 0.2)


@pytest.mark.parametrize(("n_loud", "heard"), [(9, False), (10, True)])
def test_has_speech_needs_three_tenths_of_a_second(n_loud: int, heard: bool) -> None:
    audio = np.full(3 * SAMPLE_RATE_HZ, 1e-4, np.float32)
    for frame in range(n_loud):  # not in a row
        audio[2 * frame * FRAME_SAMPLES : (2 * frame + 1) * FRAME_SAMPLES] = 0.5
    assert has_speech(audio, Loudness()) is heard


def test_has_speech_stops_at_enough_of_it() -> None:
    detector = Loudness()
    assert has_speech(np.full(SAMPLE_RATE_HZ, 0.5, np.float32), detector)
    assert detector.n_frames == 10


def test_has_speech_of_no_audio_is_false() -> None:
    assert not has_speech(np.empty(0, np.float32), Loudness())
