"""Where speech begins and ends in the frames of a stream, and where a segment is cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES, HYSTERESIS, SpeechDetector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferWord, FloatArray
from whisper_hailo.live.options import CaptionOptions

_SMOOTHING: Final = round(0.04 * SAMPLE_RATE_HZ)
"""Samples over which loudness is averaged when a quiet place is looked for."""

_HOP: Final = 80
"""Samples between places that are looked at: 5 ms."""

_QUIET_S: Final = 1.0
"""The detector forgets what it has heard after so much silence. Its state can get stuck after a
voice of another kind: 14 s of speech were missed so."""

_SLACK_S: Final = 0.08
"""Word times are that far off either way."""

_LEAST_KEPT_S: Final = 0.2
"""What follows a cut is at least this long; a word that has just begun is not cut off."""


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
        n_before = self._min_speech + _count_frames(options.pre_roll_s)
        self._before: deque[_Frame] = deque(maxlen=n_before)
        self._frames: list[_Frame] = []
        self._offset = 0  # samples of the first frame that belong to the segment before
        self._run = 0  # frames of speech on end, or of silence within a segment
        self._n_quiet = 0  # frames of silence on end while no segment is running
        self._speaking = False
        self.n_heard = 0

    @property
    def n_samples(self) -> int:
        """Return the samples of the running segment."""
        return len(self._frames) * FRAME_SAMPLES - self._offset

    @property
    def start(self) -> int:
        """Return the first sample of the running segment, from the beginning of the stream."""
        return self.n_heard - self.n_samples

    @property
    def last_speech(self) -> int:
        """Return the last sample of speech, from the beginning of the stream."""
        return max(self.start, self.n_heard - self._run * FRAME_SAMPLES)

    @property
    def audio(self) -> FloatArray:
        """Return `(n_samples,)` float32 of the running segment."""
        if not self._frames:
            return np.empty(0, np.float32)
        return np.concatenate([frame.audio for frame in self._frames])[self._offset :]

    def push(self, audio: FloatArray) -> Literal["started", "ended"] | None:
        """Take one frame, `(512,)` float32 at 16 kHz; return what it changed."""
        self.n_heard += FRAME_SAMPLES
        frame = _Frame(audio, self._detector.probability(audio))
        is_quiet = frame.probability < self._threshold - HYSTERESIS
        if self._speaking:
            self._frames.append(frame)
            self._run = self._run + 1 if is_quiet else 0
            return "ended" if self._run >= self._min_silence else None
        self._before.append(frame)
        self._run = self._run + 1 if frame.probability >= self._threshold else 0
        self._n_quiet = self._n_quiet + 1 if is_quiet else 0
        if self._n_quiet == _count_frames(_QUIET_S):
            self._detector.reset()
        if self._run < self._min_speech:
            return None
        self._frames = list(self._before)  # the pre-roll, too
        self._before.clear()
        self._offset, self._run, self._n_quiet, self._speaking = 0, 0, 0, True
        return "started"

    def end(self) -> None:
        """Drop the running segment and its audio."""
        self._frames, self._offset, self._run, self._speaking = [], 0, 0, False

    def skip(self, n_samples: int) -> None:
        """Skip `n_samples` of the stream while no segment is running.

        What was pushed before does not become the pre-roll of what follows.
        """
        self._before.clear()
        self._run = 0
        self.n_heard += n_samples

    def cut(self, n_samples: int) -> None:
        """Drop the first `n_samples` of the running segment; the rest is a new segment."""
        n_gone, self._offset = divmod(self._offset + n_samples, FRAME_SAMPLES)
        del self._frames[:n_gone]

    def quietest(self, begin: int, end: int) -> tuple[int, float]:
        """Return the quietest place between two samples of the running segment, and its loudness.

        Loudness is the root mean square around it, weighted by the probability of speech.
        """
        audio = self.audio
        power = np.concatenate([[0.0], np.cumsum(audio.astype(np.float64) ** 2)])
        places = np.arange(begin, end, _HOP)
        low = np.clip(places - _SMOOTHING // 2, 0, audio.size)
        high = np.minimum(places + _SMOOTHING // 2, audio.size)
        loudness = np.sqrt((power[high] - power[low]) / np.maximum(high - low, 1))
        frames = np.minimum((places + self._offset) // FRAME_SAMPLES, len(self._frames) - 1)
        score = loudness * (0.5 + np.array([one.probability for one in self._frames])[frames])
        best = int(np.argmin(score))
        return int(places[best]), float(score[best])


def _count_frames(seconds: float) -> int:
    """Return the frames that cover a duration."""
    return int(np.ceil(round(seconds * SAMPLE_RATE_HZ / FRAME_SAMPLES, 6)))


def cut_place(segmenter: Segmenter, words: Sequence[BufferWord], settled_s: float) -> int:
    """Return the best place to cut the running segment: at least 1 sample, fewer than there are.

    It lies behind every committed word, all said by `settled_s`, and in the segment's second half:
    the quietest place between two words where their times are known, otherwise the quietest place
    there is.
    """
    n_samples = segmenter.n_samples
    least = max(round(settled_s * SAMPLE_RATE_HZ), n_samples // 2)
    most = max(least + 1, n_samples - round(_LEAST_KEPT_S * SAMPLE_RATE_HZ))
    gaps = []
    for word, following in pairwise(words):
        if word.end_s is not None and following.start_s is not None:
            begin = max(least, round((word.end_s - _SLACK_S) * SAMPLE_RATE_HZ))
            end = min(most, round((following.start_s + _SLACK_S) * SAMPLE_RATE_HZ))
            gaps += [(begin, end)] if begin < end else []
    quiet = [segmenter.quietest(begin, end) for begin, end in gaps or [(least, most)]]
    place = min(quiet, key=lambda candidate: candidate[1])[0]
    return min(place, n_samples - 1)
