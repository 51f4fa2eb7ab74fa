"""Recordings of known layout, and what comes of their windows."""

from __future__ import annotations

import numpy as np

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import FloatArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.window import WindowResult

PLAN = WindowPlan(10.0, 1.0)


def feed_of(audio: FloatArray, block: int = 16_000) -> AudioBuffer:
    return AudioBuffer(audio[at : at + block] for at in range(0, len(audio), block))


def ramp(n_samples: int) -> FloatArray:
    """Every sample tells its own position."""
    return np.arange(n_samples, dtype=np.float32)


def heard(
    window: Window, segments: tuple[Segment, ...] = (), advance_s: float = 99.0
) -> WindowResult:
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(window, decoded, segments, min(advance_s, window.content_s))


def segment(words: list[Word]) -> Segment:
    text = "".join(word.text for word in words).strip()
    return Segment(
        words[0].start_s, words[-1].end_s, text, (), -0.1, 0.0, words=tuple(words)
    )


class Script:
    """A detector that says what it was told to say."""

    def __init__(self, probabilities: list[float]) -> None:
        self._probabilities = iter(probabilities)

    def reset(self) -> None:
        pass

    def probability(self, frame: FloatArray) -> float:
        return next(self._probabilities, 0.0)
