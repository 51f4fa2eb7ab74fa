"""The gate in front of the encoder: windows begin where speech does, and without any there is none.

Whisper writes words for music, noise and silence, and takes them for some language. What never
reaches the encoder is never made up, and costs a detector's glance instead of a window's decoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import (
    FRAME_SAMPLES,
    LEVEL_SAMPLES,
    SpeechDetector,
    find_onset,
    quiet_gain,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer

_LEAD_SAMPLES: Final = SAMPLE_RATE_HZ // 2
"""Kept before speech: detectors miss soft first sounds."""

_SHORT_SAMPLES: Final = SAMPLE_RATE_HZ
"""So little silence before speech stays where it is: Whisper was trained with it."""

_HELD_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
"""More than what is kept before speech and what confirms it together."""

_LOOKED_AT: Final = 16 * FRAME_SAMPLES
"""Half a second at a time, most of which is speech from its first frame."""


class SpeechGate:
    """Finds where the next window may begin.

    Args:
        detector: of speech; started afresh for each window.
        threshold: probability above which a frame is speech.
    """

    def __init__(self, detector: SpeechDetector, threshold: float) -> None:
        self._detector = detector
        self._threshold = threshold

    def find_start(self, buffer: AudioBuffer, start: int, end: int | None = None) -> int | None:
        """Return the position in samples where a window with speech begins; `None`: there is none.

        Args:
            buffer: the recording; what lies before the position found is forgotten.
            start: position from which on speech is looked for.
            end: position at which the search ends; `None` is the end of the recording.
        """
        self._detector.reset()
        onset = find_onset(self._probabilities(buffer, start, end), self._threshold)
        if onset is None:
            return None
        position = start + onset * FRAME_SAMPLES
        return start if position - start <= _SHORT_SAMPLES else position - _LEAD_SAMPLES

    def _probabilities(self, buffer: AudioBuffer, start: int, end: int | None) -> Iterator[float]:
        """Of each frame, raised where 30 s of audio are quiet."""
        position, measured, gain = start, start, 1.0
        while end is None or position < end:
            buffer.forget(max(start, position - _HELD_SAMPLES))
            if position >= measured:
                measured = position + LEVEL_SAMPLES
                gain = quiet_gain(buffer.peek(position, LEVEL_SAMPLES))
            audio = buffer.peek(position, _LOOKED_AT)
            if not audio.size:
                return
            for first in range(0, audio.size, FRAME_SAMPLES):
                yield self._probability(gain * audio[first : first + FRAME_SAMPLES])
            position += audio.size

    def _probability(self, frame: FloatArray) -> float:
        """Digital silence needs no model to be told from speech."""
        if not frame.any():
            return 0.0
        if frame.size < FRAME_SAMPLES:
            frame = np.pad(frame, (0, FRAME_SAMPLES - frame.size))
        return self._detector.probability(frame)
