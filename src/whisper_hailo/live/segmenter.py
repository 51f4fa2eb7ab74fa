"""Where speech begins and ends in the frames of a stream."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal, NamedTuple

import numpy as np

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    FRAME_SAMPLES,
    HYSTERESIS,
    SpeechDetector,
    frames_to_seconds,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.options import CaptionOptions

_SMOOTHING: Final = round(0.04 * SAMPLE_RATE_HZ)
"""Samples over which loudness is averaged to find a quiet place."""

_HOP: Final = 80
"""Samples between the places that are compared: 5 ms."""

_RESET_S: Final = 1.0
"""After so much silence the detector is reset. Its state can get stuck after a voice of another
kind: 14 s of speech were missed so."""


class _Frame(NamedTuple):
    audio: FloatArray
    probability: float


class Segmenter:
    """Cuts a stream into segments of speech; no sample is lost or in two of them.

    Attributes:
        n_heard: samples pushed or skipped so far.
    """

    def __init__(self, detector: SpeechDetector, options: CaptionOptions) -> None:
        self._detector = detector
        self._threshold = options.vad_threshold
        self._min_silence = _count_frames(options.min_silence_s)
        self._min_speech = max(1, _count_frames(options.min_speech_s))
        n_pre_roll = _count_frames(options.pre_roll_s)
        self._before: deque[_Frame] = deque(maxlen=self._min_speech + n_pre_roll)
        self._frames: list[_Frame] = []
        self._offset = 0  # samples of the first frame that belong to the segment before
        self._n_speech = 0  # frames in a row, while no segment is running
        self._n_silence = 0  # frames in a row
        self._is_speaking = False
        self.n_heard = 0

    @property
    def n_samples(self) -> int:
        """The number of samples of the running segment."""
        return len(self._frames) * FRAME_SAMPLES - self._offset

    @property
    def start(self) -> int:
        """The first sample of the running segment, from the beginning of the stream."""
        return self.n_heard - self.n_samples

    @property
    def last_speech(self) -> int:
        """The last sample of speech, from the beginning of the stream."""
        return max(self.start, self.n_heard - self._n_silence * FRAME_SAMPLES)

    @property
    def silence_left_s(self) -> float:
        """The seconds of silence that would end the running segment."""
        return frames_to_seconds(self._min_silence - self._n_silence)

    @property
    def is_silent(self) -> bool:
        """Whether the last frame was silence."""
        return self._n_silence > 0

    @property
    def audio(self) -> FloatArray:
        """The audio of the running segment, `(n_samples,)` float32."""
        if not self._frames:
            return np.empty(0, np.float32)
        audio = np.concatenate([frame.audio for frame in self._frames])
        return audio[self._offset :]

    def probabilities_until(self, n_samples: int) -> list[float]:
        """Return the probabilities of speech of the first samples, one per frame."""
        n_frames = (self._offset + n_samples) // FRAME_SAMPLES
        return [frame.probability for frame in self._frames[:n_frames]]

    def measure_speech(self, after_s: float) -> float:
        """Return the seconds of certain speech behind a place of the running segment."""
        first = (round(after_s * SAMPLE_RATE_HZ) + self._offset) // FRAME_SAMPLES
        n_frames = 0
        for frame in self._frames[max(0, first) :]:
            if frame.probability >= CERTAIN_THRESHOLD:
                n_frames += 1
        return frames_to_seconds(n_frames)

    def push(self, audio: FloatArray) -> Literal["started", "ended"] | None:
        """Take one frame, `(512,)` float32 at 16 kHz; return what it changed."""
        self.n_heard += FRAME_SAMPLES
        frame = _Frame(audio, self._detector.probability(audio))
        is_silence = frame.probability < self._threshold - HYSTERESIS
        self._n_silence = self._n_silence + 1 if is_silence else 0
        if self._is_speaking:
            self._frames.append(frame)
            return "ended" if self._n_silence >= self._min_silence else None
        self._before.append(frame)
        if self._n_silence == _count_frames(_RESET_S):
            self._detector.reset()
        is_speech = frame.probability >= self._threshold
        self._n_speech = self._n_speech + 1 if is_speech else 0
        if self._n_speech < self._min_speech:
            return None
        self._start_segment()
        return "started"

    def _start_segment(self) -> None:
        """Begin a segment with the frames that made it one, and the pre-roll before them."""
        self._frames = list(self._before)
        self._before.clear()
        self._offset = 0
        self._n_silence = 0
        self._is_speaking = True

    def end_segment(self) -> None:
        """Drop the running segment and its audio."""
        self._frames = []
        self._offset = 0
        self._n_speech = 0
        self._n_silence = 0
        self._is_speaking = False

    def skip(self, n_samples: int) -> None:
        """Skip `n_samples` of the stream while no segment is running.

        What was pushed before does not become the pre-roll of what follows.
        """
        self._before.clear()
        self._n_speech = 0
        self.n_heard += n_samples

    def cut_segment(self, n_samples: int) -> None:
        """Drop the first `n_samples` of the running segment; the rest is a new segment."""
        n_frames, self._offset = divmod(self._offset + n_samples, FRAME_SAMPLES)
        del self._frames[:n_frames]  # the frame at the cut belongs to both parts

    def find_quietest(self, begin: int, end: int) -> tuple[int, float]:
        """Return the quietest place between two samples of the running segment, and its loudness.

        Loudness is the root mean square around it, weighted by the probability of speech.
        """
        audio = self.audio
        power = audio.astype(np.float64) ** 2
        power_sums = np.concatenate([[0.0], np.cumsum(power)])
        places = np.arange(begin, end, _HOP)
        low = np.clip(places - _SMOOTHING // 2, 0, audio.size)
        high = np.minimum(places + _SMOOTHING // 2, audio.size)
        n_samples = np.maximum(high - low, 1)
        loudness = np.sqrt((power_sums[high] - power_sums[low]) / n_samples)
        frames = (places + self._offset) // FRAME_SAMPLES
        frames = np.minimum(frames, len(self._frames) - 1)
        probabilities = np.array([frame.probability for frame in self._frames])
        score = loudness * (0.5 + probabilities[frames])
        best = int(np.argmin(score))
        return int(places[best]), float(score[best])


def _count_frames(seconds: float) -> int:
    """Return the frames that cover a duration."""
    return int(np.ceil(round(seconds * SAMPLE_RATE_HZ / FRAME_SAMPLES, 6)))
