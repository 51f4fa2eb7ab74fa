"""Windows of speech: stretches that a detector finds, packed without the silence between them.

Whisper writes words for music, noise and silence that reach the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whisper_hailo.audio.vad import (
    FRAME_SAMPLES,
    LEVEL_SAMPLES,
    SpeechDetector,
    quiet_gain,
    speech_stretches,
)
from whisper_hailo.audio.windows import PackedPiece, Window
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.transcription.longform.options import Clip, LongOptions
from whisper_hailo.transcription.longform.planner import WindowPlanner


class _Stretch(NamedTuple):
    """Speech with the silence around it, from a sample of the recording."""

    start: int
    audio: FloatArray


@dataclass(eq=False)
class SpeechPlanner(WindowPlanner):
    """Windows of speech without the silence between.

    Stretches keep a little of the silence around them. One longer than a window is cut where speech
    is least likely. Memory holds a window's audio and 30 s for the level, however long the
    recording and its pauses are.
    """

    options: LongOptions
    detector: SpeechDetector

    def __post_init__(self) -> None:
        super().__post_init__()
        pad = round(self.options.speech_pad_s * SAMPLE_RATE_HZ)
        self._pad = min(pad, self._content // 8)  # most of a window stays speech
        self._end = 0
        """Sample up to which the detector has come."""

    def windows(self) -> Iterator[Window]:
        """Yield windows with as many stretches as fit."""
        for clip in self.clips:
            stretches: list[_Stretch] = []
            n_samples = 0
            for stretch in self._stretches(clip):
                if stretches and n_samples + stretch.audio.size > self._content:
                    yield _pack(stretches)
                    stretches = []
                    n_samples = 0
                stretches.append(stretch)
                n_samples += stretch.audio.size
            if stretches:
                yield _pack(stretches)

    def _stretches(self, clip: Clip) -> Iterator[_Stretch]:
        """Yield the stretches of speech in a clip; neighbours share no sample."""
        threshold = self.options.vad_threshold
        n_silent = round(self.options.min_silence_s * SAMPLE_RATE_HZ / FRAME_SAMPLES)
        n_longest = (self._content - 2 * self._pad) // FRAME_SAMPLES
        free_from = clip.start
        probabilities = self._probabilities(clip)
        for speech in speech_stretches(probabilities, threshold, n_silent, n_longest):
            start = max(
                free_from, clip.start + speech.start * FRAME_SAMPLES - self._pad
            )
            end = clip.start + speech.end * FRAME_SAMPLES
            # A stretch that was cut takes nothing from its rest.
            if not speech.continues:
                end += self._pad
            end = min(end, self._end)
            if clip.end is not None:
                end = min(end, clip.end)
            yield _Stretch(start, self.buffer.peek(start, end - start).copy())
            free_from = max(free_from, end)

    def _probabilities(self, clip: Clip) -> Iterator[float]:
        """Yield each frame's probability, amplified where 30 s of audio are quiet.

        The buffer keeps a window's audio: no stretch with its padding is longer.
        """
        position = clip.start
        measured_to = clip.start
        gain = 1.0
        while clip.end is None or position < clip.end:
            self.buffer.forget(
                max(clip.start, position - self._content - FRAME_SAMPLES)
            )
            if position == measured_to:
                measured_to += LEVEL_SAMPLES
                end = measured_to if clip.end is None else min(measured_to, clip.end)
                gain = quiet_gain(self.buffer.peek(position, end - position))
            audio = self.buffer.peek(position, FRAME_SAMPLES)
            if not audio.size:
                return
            self._end = position + audio.size
            frame = np.zeros(FRAME_SAMPLES, dtype=np.float32)
            frame[: audio.size] = gain * audio
            yield self.detector.probability(frame)
            position += FRAME_SAMPLES


def _pack(stretches: Sequence[_Stretch]) -> Window:
    """Return one window of several stretches, with the position of each."""
    pieces: list[PackedPiece] = []
    position = 0
    for start, audio in stretches:
        piece = PackedPiece(
            position / SAMPLE_RATE_HZ,
            start / SAMPLE_RATE_HZ,
            audio.size / SAMPLE_RATE_HZ,
        )
        pieces.append(piece)
        position += audio.size
    audio = np.concatenate([stretch.audio for stretch in stretches])
    return Window(audio, pieces[0].start_s, tuple(pieces))
