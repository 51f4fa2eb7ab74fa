"""Speech in a window whose text is doubtful: without any, the text was made up."""

from __future__ import annotations

from typing import Final

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    SpeechDetector,
    frames_to_seconds,
    quiet_gain,
    split_frames,
)
from whisper_hailo.core.types import FloatArray

_MIN_SPEECH_S: Final = 0.3
"""Of 42 recordings without speech the detector is as sure for 0.26 s at most, in a minute of music.
Of 482 of people two have less, a whisper and a creaking voice (docs/accuracy.md)."""


def has_speech(audio: FloatArray, detector: SpeechDetector) -> bool:
    """Return whether the detector is sure of speech in `(n_samples,)` for long enough."""
    detector.reset()
    n_spoken = 0
    for frame in split_frames(quiet_gain(audio) * audio):
        if detector.probability(frame) > CERTAIN_THRESHOLD:
            n_spoken += 1
            if frames_to_seconds(n_spoken) >= _MIN_SPEECH_S:
                return True
    return False
