"""Speech detection: where windows start, or stretches of speech packed into windows.

Whisper writes words for music, noise and silence. Audio that never reaches the encoder is never
made into text, and costs a detector's pass instead of a window's decoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import (
    FRAME_SAMPLES,
    LEVEL_SAMPLES,
    Speech,
    SpeechDetector,
    find_onset,
    quiet_gain,
    speech_stretches,
)
from whisper_hailo.audio.windows import PackedPiece, Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment
from whisper_hailo.transcription.longform.plan import AudioBuffer, Clip, LongOptions
from whisper_hailo.transcription.window import WindowResult

_LEAD_SAMPLES: Final = SAMPLE_RATE_HZ // 2
"""Kept before speech: detectors miss soft first sounds."""

_SHORT_SAMPLES: Final = SAMPLE_RATE_HZ
"""A shorter silence before speech is kept: Whisper was trained with it."""

_HELD_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
"""More than the lead and the confirmation of speech together."""

_LOOKED_AT: Final = 16 * FRAME_SAMPLES
"""Half a second, mostly speech from its first frame."""


class SpeechGate:
    """Finds where the next window may start."""

    def __init__(self, detector: SpeechDetector, threshold: float) -> None:
        self._detector = detector
        self._threshold = threshold

    def find_start(self, buffer: AudioBuffer, start: int, end: int | None = None) -> int | None:
        """Return the sample where a window with speech starts, or `None`.

        Args:
            buffer: the recording; samples before the position are dropped.
            start: first sample to consider.
            end: end of the search; `None` is the end of the recording.
        """
        self._detector.reset()
        onset = find_onset(self._probabilities(buffer, start, end), self._threshold)
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
                yield self._probability(gain * audio[first : first + FRAME_SAMPLES])
            position += audio.size

    def _probability(self, frame: FloatArray) -> float:
        """Return the probability; digital silence needs no model."""
        if not frame.any():
            return 0.0
        if frame.size < FRAME_SAMPLES:
            frame = np.pad(frame, (0, FRAME_SAMPLES - frame.size))
        return self._detector.probability(frame)


class SpeechPlan:
    """Windows of speech without the silence between.

    Stretches keep a little of the silence around them. One longer than a window is cut where speech
    is least likely. Memory holds a window's audio and 30 s for the level, however long the
    recording and its pauses are.
    """

    pending: Sequence[Segment] = ()

    def __init__(
        self,
        buffer: AudioBuffer,
        clips: tuple[Clip, ...],
        plan: WindowPlan,
        options: LongOptions,
        detector: SpeechDetector,
        *,
        sequential: bool = False,
    ) -> None:
        self._buffer = buffer
        self._clips = clips
        self._content = plan.content_samples
        self._options = options
        self._detector = detector
        self._pad = min(round(options.speech_pad_s * SAMPLE_RATE_HZ), self._content // 8)
        self.sequential = sequential

    def windows(self) -> Iterator[Window]:
        for clip in self._clips:
            yield from self._pack(self._spans(clip))

    def _pack(self, spans: Iterator[tuple[int, FloatArray]]) -> Iterator[Window]:
        """Put as many stretches into a window as fit."""
        held: list[tuple[int, FloatArray]] = []
        size = 0
        for start, audio in spans:
            if held and size + audio.size > self._content:
                yield _joined(held)
                held, size = [], 0
            held.append((start, audio))
            size += audio.size
        if held:
            yield _joined(held)

    def _spans(self, clip: Clip) -> Iterator[tuple[int, FloatArray]]:
        """Yield start in samples and audio of each stretch, with silence around it."""
        longest = (self._content - 2 * self._pad) // FRAME_SAMPLES
        silence = round(self._options.min_silence_s * SAMPLE_RATE_HZ / FRAME_SAMPLES)
        recent = _Recent(clip.start, self._content + FRAME_SAMPLES)
        free_from = clip.start
        frames = self._probabilities(clip, recent)
        for speech in speech_stretches(frames, self._options.vad_threshold, silence, longest):
            start, end = self._padded(speech, clip, free_from)
            end = min(end, recent.end if clip.end is None else min(clip.end, recent.end))
            yield start, recent.slice(start, end)
            free_from = max(free_from, end)

    def _padded(self, speech: Speech, clip: Clip, free_from: int) -> tuple[int, int]:
        """Return sample positions; a stretch that was cut takes nothing from its rest."""
        start = clip.start + speech.start * FRAME_SAMPLES
        end = clip.start + speech.end * FRAME_SAMPLES
        return max(free_from, start - self._pad), end if speech.continues else end + self._pad

    def _probabilities(self, clip: Clip, recent: _Recent) -> Iterator[float]:
        """Yield each frame's probability, amplified where 30 s of audio are quiet."""
        at, measured, gain = clip.start, clip.start, 1.0
        while clip.end is None or at < clip.end:
            if at == measured:
                measured += LEVEL_SAMPLES
                end = measured if clip.end is None else min(measured, clip.end)
                gain = quiet_gain(self._buffer.read(at, end - at))
            audio = self._buffer.read(at, FRAME_SAMPLES)
            if not audio.size:
                return
            recent.add(audio)
            frame = np.zeros(FRAME_SAMPLES, dtype=np.float32)
            frame[: audio.size] = gain * audio
            yield self._detector.probability(frame)
            at += FRAME_SAMPLES

    def take(self, result: WindowResult) -> list[Segment]:
        """Return the segments: windows do not overlap."""
        return list(result.segments)

    def finish(self) -> list[Segment]:
        return []


class _Recent:
    """The last frames that the detector saw, from which stretches are cut.

    At most `n_samples` are held: no stretch with its padding is longer.
    """

    def __init__(self, start: int, n_samples: int) -> None:
        self._frames: deque[FloatArray] = deque()
        self._start = start
        self._n_samples = n_samples
        self.end = start

    def add(self, audio: FloatArray) -> None:
        """Add the next frame and drop the oldest ones."""
        self._frames.append(audio)
        self.end += audio.size
        while self.end - self._start - self._frames[0].size > self._n_samples:
            self._start += self._frames.popleft().size

    def slice(self, start: int, end: int) -> FloatArray:
        audio: FloatArray = np.concatenate(self._frames)[start - self._start : end - self._start]
        return audio


def _joined(spans: list[tuple[int, FloatArray]]) -> Window:
    """Return one window of several stretches, with the position of each."""
    pieces, at = [], 0
    for start, audio in spans:
        pieces.append(
            PackedPiece(
                at_s=at / SAMPLE_RATE_HZ,
                start_s=start / SAMPLE_RATE_HZ,
                duration_s=audio.size / SAMPLE_RATE_HZ,
            )
        )
        at += audio.size
    audio = np.concatenate([audio for _, audio in spans])
    return Window(audio, pieces[0].start_s, tuple(pieces))
