"""Speech detection: where windows start, or stretches of speech packed into windows.

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
    speech_stretches,
)
from whisper_hailo.audio.windows import PackedPiece, Window
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.transcription.longform.plan import AudioBuffer, Clip, LongOptions, WindowPlanner

_LEAD_SAMPLES: Final = SAMPLE_RATE_HZ // 2
"""Kept before speech: detectors miss soft first sounds."""

_SHORT_SAMPLES: Final = SAMPLE_RATE_HZ
"""A shorter silence before speech is kept: Whisper was trained with it."""

_HELD_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
"""More than the lead and the confirmation of speech together."""

_LOOKED_AT: Final = 16 * FRAME_SAMPLES
"""Half a second, mostly speech from its first frame."""


@dataclass(frozen=True, slots=True)
class SpeechGate:
    """Finds where the next window may start."""

    detector: SpeechDetector
    threshold: float

    def find_start(self, buffer: AudioBuffer, start: int, end: int | None = None) -> int | None:
        """Return the sample where a window with speech starts, or `None`.

        Samples before it are dropped from the buffer; `end` `None` is that of the recording.
        """
        self.detector.reset()
        onset = find_onset(self._probabilities(buffer, start, end), self.threshold)
        if onset is None:
            return None
        position = start + onset * FRAME_SAMPLES
        return start if position - start <= _SHORT_SAMPLES else position - _LEAD_SAMPLES

    def _probabilities(self, buffer: AudioBuffer, start: int, end: int | None) -> Iterator[float]:
        """Yield each frame's probability, amplified where 30 s of audio are quiet."""
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
                frame = gain * audio[first : first + FRAME_SAMPLES]
                if frame.size < FRAME_SAMPLES:
                    frame = np.pad(frame, (0, FRAME_SAMPLES - frame.size))
                # Digital silence needs no model.
                yield self.detector.probability(frame) if frame.any() else 0.0
            position += audio.size


@dataclass(eq=False)
class SpeechPlan(WindowPlanner):
    """Windows of speech without the silence between.

    Stretches keep a little of the silence around them. One longer than a window is cut where speech
    is least likely. Memory holds a window's audio and 30 s for the level, however long the
    recording and its pauses are.
    """

    options: LongOptions
    detector: SpeechDetector

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pad = min(round(self.options.speech_pad_s * SAMPLE_RATE_HZ), self._content // 8)
        self._heard = 0

    def windows(self) -> Iterator[Window]:
        """Yield windows with as many stretches as fit."""
        for clip in self.clips:
            held: list[tuple[int, FloatArray]] = []
            size = 0
            for start, audio in self._spans(clip):
                if held and size + audio.size > self._content:
                    yield _join_spans(held)
                    held, size = [], 0
                held.append((start, audio))
                size += audio.size
            if held:
                yield _join_spans(held)

    def _spans(self, clip: Clip) -> Iterator[tuple[int, FloatArray]]:
        """Yield start in samples and audio of each stretch, with silence around it."""
        longest = (self._content - 2 * self._pad) // FRAME_SAMPLES
        silence = round(self.options.min_silence_s * SAMPLE_RATE_HZ / FRAME_SAMPLES)
        free_from = clip.start
        frames = self._probabilities(clip)
        for speech in speech_stretches(frames, self.options.vad_threshold, silence, longest):
            start = max(free_from, clip.start + speech.start * FRAME_SAMPLES - self._pad)
            # A stretch that was cut takes nothing from its rest.
            end = clip.start + speech.end * FRAME_SAMPLES + self._pad * (not speech.continues)
            end = min(end, self._heard if clip.end is None else min(clip.end, self._heard))
            yield start, self.buffer.peek(start, end - start).copy()
            free_from = max(free_from, end)

    def _probabilities(self, clip: Clip) -> Iterator[float]:
        """Yield each frame's probability, amplified where 30 s of audio are quiet.

        The buffer keeps a window's audio: no stretch with its padding is longer.
        """
        at, measured, gain = clip.start, clip.start, 1.0
        while clip.end is None or at < clip.end:
            self.buffer.forget(max(clip.start, at - self._content - FRAME_SAMPLES))
            if at == measured:
                measured += LEVEL_SAMPLES
                end = measured if clip.end is None else min(measured, clip.end)
                gain = quiet_gain(self.buffer.peek(at, end - at))
            audio = self.buffer.peek(at, FRAME_SAMPLES)
            if not audio.size:
                return
            self._heard = at + audio.size
            frame = np.zeros(FRAME_SAMPLES, dtype=np.float32)
            frame[: audio.size] = gain * audio
            yield self.detector.probability(frame)
            at += FRAME_SAMPLES


def _join_spans(spans: list[tuple[int, FloatArray]]) -> Window:
    """Return one window of several stretches, with the position of each."""
    pieces, at = [], 0
    for start, audio in spans:
        pieces.append(PackedPiece(*(n / SAMPLE_RATE_HZ for n in (at, start, audio.size))))
        at += audio.size
    audio = np.concatenate([audio for _, audio in spans])
    return Window(audio, pieces[0].start_s, tuple(pieces))
