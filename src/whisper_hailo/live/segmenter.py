"""The frames of a stream, where speech begins and ends in them, and where a segment is cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES, SpeechDetector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferWord, FloatArray
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources.source import Voices

_HYSTERESIS: Final = 0.15
"""Speech goes on until the probability falls this far below the threshold, as Silero has it."""

_SMOOTHING: Final = round(0.04 * SAMPLE_RATE_HZ)
"""Samples over which loudness is averaged when a quiet place is looked for."""

_HOP: Final = 80
"""Samples between places that are looked at: 5 ms."""

_QUIET_S: Final = 1.0
"""The detector forgets what it has heard after so much silence. Its state can get stuck after a
voice of another kind: 14 s of speech were missed so."""

_TURN: Final = 10
"""Frames of speech by another speaker that make it theirs; less is a word between."""


class FrameBuffer:
    """Collects audio into whole frames."""

    def __init__(self) -> None:
        self._audio = np.empty(0, np.float32)
        self._voices: Voices = np.empty(0, np.int8)

    @property
    def n_waiting(self) -> int:
        """Return the samples of the incomplete frame."""
        return self._audio.size

    def push(
        self, audio: FloatArray, voices: Voices | None = None
    ) -> Iterator[tuple[FloatArray, int | None]]:
        """Take `(n_samples,)` float32; yield whole frames, with speakers if channels are those."""
        pending = np.concatenate([self._audio, audio]) if self._audio.size else audio
        heard = None if voices is None else np.concatenate([self._voices, voices])
        n_whole = pending.size // FRAME_SAMPLES * FRAME_SAMPLES
        self._audio = pending[n_whole:].copy()
        if heard is not None:
            self._voices = heard[n_whole:].copy()
        for begin in range(0, n_whole, FRAME_SAMPLES):
            speaker = None if heard is None else int(heard[begin + FRAME_SAMPLES // 2])
            yield pending[begin : begin + FRAME_SAMPLES], speaker

    def rest(self) -> tuple[FloatArray, int | None] | None:
        """Return the incomplete frame, padded with silence; `None` where there is none."""
        n_waiting = self.n_waiting
        if not n_waiting:
            return None
        frame = np.pad(self._audio, (0, FRAME_SAMPLES - n_waiting))
        speaker = int(self._voices[-1]) if self._voices.size else None
        self.drop()
        return frame, speaker

    def drop(self) -> int:
        """Drop the incomplete frame; return its samples."""
        n_waiting = self.n_waiting
        self._audio, self._voices = self._audio[:0], self._voices[:0]
        return n_waiting


class Signal(Enum):
    """What a frame changed."""

    STARTED = auto()
    TURNED = auto()
    ENDED = auto()


class _Frame(NamedTuple):
    audio: FloatArray
    probability: float
    speaker: int | None


class Segmenter:
    """Cuts a stream into segments of speech; no sample is lost or in two of them.

    Attributes:
        n_heard: samples pushed or skipped so far.
        speaker: of the running segment; `None` where channels are not speakers.
    """

    def __init__(self, detector: SpeechDetector, options: CaptionOptions) -> None:
        self._detector = detector
        self.set(options)
        self._min_speech = max(1, _frames(options.min_speech_s))
        n_before = self._min_speech + _frames(options.pre_roll_s)
        self._before: deque[_Frame] = deque(maxlen=n_before)
        self._frames: list[_Frame] = []
        self._offset = 0  # samples of the first frame that belong to the segment before
        self._run = 0  # frames of speech on end, or of silence within a segment
        self._n_quiet = 0  # frames of silence on end while no segment is running
        self._speaking = False
        self._turn: deque[int] = deque(maxlen=_TURN)  # frames of speech by another, on end
        self._other: int | None = None
        self.speaker: int | None = None
        self.n_heard = 0

    def set(self, options: CaptionOptions) -> None:
        """Use other thresholds from the next frame on."""
        self._threshold = options.vad_threshold
        self._min_silence = _frames(options.min_silence_s)

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
    def silent_s(self) -> float:
        """Return the seconds of silence at the end of the running segment."""
        return self._run * FRAME_SAMPLES / SAMPLE_RATE_HZ

    @property
    def audio(self) -> FloatArray:
        """Return `(n_samples,)` float32 of the running segment."""
        if not self._frames:
            return np.empty(0, np.float32)
        return np.concatenate([frame.audio for frame in self._frames])[self._offset :]

    def push(self, frame: FloatArray, speaker: int | None = None) -> Signal | None:
        """Take one frame, `(512,)` float32 at 16 kHz, and its speaker."""
        self.n_heard += FRAME_SAMPLES
        probability = self._detector.probability(frame)
        if self._speaking:
            return self._go_on(_Frame(frame, probability, speaker))
        self._before.append(_Frame(frame, probability, speaker))
        self._run = self._run + 1 if probability >= self._threshold else 0
        self._n_quiet = self._n_quiet + 1 if probability < self._threshold - _HYSTERESIS else 0
        if self._n_quiet == _frames(_QUIET_S):
            self._detector.reset()
        if self._run < self._min_speech:
            return None
        self._begin()
        return Signal.STARTED

    def _begin(self) -> None:
        """Take the frames of speech and the pre-roll before them."""
        self._frames = list(self._before)
        self._before.clear()
        heard = [frame.speaker for frame in self._frames[-self._run :]]
        self.speaker = max(heard, key=heard.count)
        self._turn.clear()
        self._offset, self._run, self._n_quiet, self._speaking = 0, 0, 0, True

    def _go_on(self, frame: _Frame) -> Signal | None:
        self._frames.append(frame)
        if frame.probability < self._threshold - _HYSTERESIS:
            self._run += 1
        else:
            self._run = 0
            if frame.speaker != self._other:
                self._turn.clear()
            self._other = frame.speaker
            if frame.speaker != self.speaker:
                self._turn.append(len(self._frames) - 1)
        if len(self._turn) == _TURN:
            return Signal.TURNED
        return Signal.ENDED if self._run >= self._min_silence else None

    def turn(self) -> int:
        """Return where another speaker begins in the running segment."""
        place = self._turn[0] * FRAME_SAMPLES - self._offset
        self.speaker = self._other
        return place

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
        self._turn.clear()  # it counts frames
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


def _frames(seconds: float) -> int:
    """Return the frames that cover a duration."""
    return int(np.ceil(round(seconds * SAMPLE_RATE_HZ / FRAME_SAMPLES, 6)))


_SLACK_S: Final = 0.08
"""Word times are that far off either way."""

_LEAST_KEPT_S: Final = 0.2
"""What follows a cut is at least this long; a word that has just begun is not cut off."""


def cut_place(segmenter: Segmenter, words: Sequence[BufferWord], settled_s: float) -> int:
    """Return the best place to cut the running segment: at least 1 sample, fewer than there are.

    It lies behind every committed word, all said by `settled_s`, and in the segment's second half:
    the quietest place between two words where their times are known, otherwise the quietest place
    there is.
    """
    n_samples = segmenter.n_samples
    least = max(round(settled_s * SAMPLE_RATE_HZ), n_samples // 2)
    most = max(least + 1, n_samples - round(_LEAST_KEPT_S * SAMPLE_RATE_HZ))
    gaps = [(max(begin, least), min(end, most)) for begin, end in _gaps(words)]
    gaps = [(begin, end) for begin, end in gaps if begin < end] or [(least, most)]
    quiet = [segmenter.quietest(begin, end) for begin, end in gaps]
    place = min(quiet, key=lambda candidate: candidate[1])[0]
    return min(place, n_samples - 1)


def _gaps(words: Sequence[BufferWord]) -> list[tuple[int, int]]:
    """Return the samples from the end of each word to the start of the next, with some slack."""
    gaps = []
    for word, following in pairwise(words):
        if word.end_s is not None and following.start_s is not None:
            begin_s, end_s = word.end_s - _SLACK_S, following.start_s + _SLACK_S
            gaps.append((round(begin_s * SAMPLE_RATE_HZ), round(end_s * SAMPLE_RATE_HZ)))
    return gaps
