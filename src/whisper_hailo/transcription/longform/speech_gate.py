"""The speech gate: where the next window starts, past silence and noise.

Whisper writes words for music, noise and silence that reach the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import (
    FRAME_SAMPLES,
    LEVEL_SAMPLES,
    SpeechDetector,
    find_onset,
    quiet_gain,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer

_LEAD_SAMPLES: Final = SAMPLE_RATE_HZ // 2
"""Kept before speech: detectors miss soft first sounds."""

_SHORT_SAMPLES: Final = SAMPLE_RATE_HZ
"""A shorter silence before speech is kept: Whisper was trained with it."""

_HELD_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
"""More than the lead and the confirmation of speech together."""

_BLOCK_SAMPLES: Final = 16 * FRAME_SAMPLES
"""Read at once: half a second, mostly speech from its first frame."""


@dataclass(frozen=True, slots=True)
class SpeechGate:
    """Finds where the next window may start."""

    detector: SpeechDetector
    threshold: float

    def find_start(
        self, buffer: AudioBuffer, start: int, end: int | None = None
    ) -> int | None:
        """Return the sample where a window with speech starts, or `None`.

        Samples before it are dropped from the buffer; `end` `None` is that of the recording.
        """
        self.detector.reset()
        onset = find_onset(self._probabilities(buffer, start, end), self.threshold)
        if onset is None:
            return None
        position = start + onset * FRAME_SAMPLES
        return start if position - start <= _SHORT_SAMPLES else position - _LEAD_SAMPLES

    def _probabilities(
        self, buffer: AudioBuffer, start: int, end: int | None
    ) -> Iterator[float]:
        """Yield each frame's probability, amplified where 30 s of audio are quiet."""
        position = start
        measured_to = start
        gain = 1.0
        while end is None or position < end:
            buffer.forget(max(start, position - _HELD_SAMPLES))
            if position >= measured_to:
                measured_to = position + LEVEL_SAMPLES
                gain = quiet_gain(buffer.peek(position, LEVEL_SAMPLES))
            audio = buffer.peek(position, _BLOCK_SAMPLES)
            if not audio.size:
                return
            for first in range(0, audio.size, FRAME_SAMPLES):
                frame = gain * audio[first : first + FRAME_SAMPLES]
                if frame.size < FRAME_SAMPLES:
                    frame = np.pad(frame, (0, FRAME_SAMPLES - frame.size))
                # Digital silence needs no model.
                yield self.detector.probability(frame) if frame.any() else 0.0
            position += audio.size
