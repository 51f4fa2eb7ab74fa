"""The end of a spoken command, found by the server in a live stream."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from whisper_hailo.audio.stream import MAX_RATE_HZ, MIN_RATE_HZ, Resampler
from whisper_hailo.audio.vad import FRAME_SAMPLES, SileroDetector, SpeechDetector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.serve.audio import PcmForm

SILENCE_S: Final = {"aggressive": 0.25, "default": 0.7, "relaxed": 1.25}
"""Silence that ends a command, by Wyoming's `vad_sensitivity`; the values are Home Assistant's."""

_THRESHOLD: Final = 0.4
_MIN_SPEECH_FRAMES: Final = 3
"""Less than a tenth of a second is a click."""

_PRE_ROLL_S: Final = 0.4
_TAIL_S: Final = 0.3
"""Audio that is kept before and after a command."""

_BACKGROUND_DB: Final = 12.0
_COMMAND_PERCENTILE: Final = 85.0
"""Speech that is so far below the loud part of the command is a television's."""

_LEVEL_FRAMES: Final = 8
"""Levels are the highest of a quarter of a second: soft syllables belong to their word."""

_NO_SPEECH_S: Final = 10.0
_MAX_COMMAND_S: Final = 30.0

LIVE_SHARE: Final = 0.9
"""Share of its length that live audio takes to arrive; that of a file comes at once."""

_BUFFER_S: Final = 3.0
"""A client may have kept so much, spoken before it connected."""

_MAX_AHEAD_S: Final = 30.0
"""A client that is so far ahead of the clock sends a file."""

_SILENCE_DB: Final = -90.0


class EndOfSpeechDetector:
    """Finds the end of a command as it is spoken.

    Speech is what the detector takes for it and is not much quieter than the command, so that
    neither noise nor a television in the background keeps a command from ending. Audio that comes
    faster than it is spoken is a file: it ends where the client says.

    Args:
        silence_s: silence that ends the command.
        detector: probability of speech of each frame; `None` is Silero's.
        clock: seconds.
    """

    def __init__(
        self,
        silence_s: float,
        detector: SpeechDetector | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._silence_s = silence_s
        self._detector = detector or SileroDetector()
        self._clock = clock
        self._start_s = clock()
        self._rest = np.empty(0, np.float32)
        self._recent_db: deque[float] = deque(maxlen=_LEVEL_FRAMES)
        self._levels_db: list[float] = []
        self._is_speech: list[bool] = []
        self._run = 0
        self._last: int | None = None
        self._last_came_s = self._start_s
        self._is_file = False

    def push(self, audio: FloatArray) -> bool:
        """Take `(n_samples,)` at 16 kHz; return whether the command is over."""
        samples = np.concatenate([self._rest, audio])
        frames = samples[: samples.size // FRAME_SAMPLES * FRAME_SAMPLES]
        self._rest = samples[frames.size :]
        came_s = (frames.size + self._n_frames * FRAME_SAMPLES) / SAMPLE_RATE_HZ
        self._is_file |= came_s > self._clock() - self._start_s + _MAX_AHEAD_S
        if self._is_file:
            return False
        for frame in frames.reshape(-1, FRAME_SAMPLES):
            self._take(frame)
        return self._is_over()

    @property
    def _n_frames(self) -> int:
        return len(self._is_speech)

    def _take(self, frame: FloatArray) -> None:
        self._recent_db.append(_level_db(frame))
        self._levels_db.append(max(self._recent_db))
        self._is_speech.append(self._detector.probability(frame) >= _THRESHOLD)
        is_command = self._is_command(self._n_frames - 1, self._command_db())
        self._run = self._run + 1 if is_command else 0
        if self._run >= _MIN_SPEECH_FRAMES:
            self._last, self._last_came_s = self._n_frames, self._clock()

    def _is_command(self, index: int, command_db: float) -> bool:
        """Return whether a frame is speech, and about as loud as the command."""
        return self._is_speech[index] and self._levels_db[index] >= command_db - _BACKGROUND_DB

    def _command_db(self) -> float:
        """Return the level of the loud part of all speech."""
        levels = np.array(self._levels_db)[np.array(self._is_speech)]
        return float(np.percentile(levels, _COMMAND_PERCENTILE)) if levels.size else _SILENCE_DB

    def _is_over(self) -> bool:
        now_s, heard_s = self._clock(), _seconds(self._n_frames)
        if now_s - self._start_s < LIVE_SHARE * (heard_s - _BUFFER_S):
            return False
        if self._last is None:
            return heard_s >= _NO_SPEECH_S
        silence_s = min(heard_s - _seconds(self._last), (now_s - self._last_came_s) / LIVE_SHARE)
        return silence_s >= self._silence_s or heard_s >= _MAX_COMMAND_S

    @property
    def is_file(self) -> bool:
        """Whether audio has come too fast to be spoken."""
        return self._is_file

    @property
    def pause(self) -> int | None:
        """Frame after which the speaker pauses, once all silence that is kept has come."""
        if self._last is None or self._is_file:
            return None
        return self._last if _seconds(self._n_frames - self._last) >= _TAIL_S else None

    def is_lone_command(self) -> bool:
        """Return whether audio came no faster than it was spoken, and all speech is the command's.

        What is outside of the bounds is then silence or noise.
        """
        is_live = self._clock() - self._start_s >= LIVE_SHARE * _seconds(self._n_frames)
        if self._last is None or self._is_file or not is_live:
            return False
        begin, end = (samples / FRAME_SAMPLES for samples in self.bounds())
        return not any(self._is_speech[: int(begin)] + self._is_speech[math.ceil(end) :])

    def bounds(self) -> tuple[int, int]:
        """Return the samples where the command begins and ends, with a little around it.

        A sound before it, such as that of a satellite that was woken, is left out.
        """
        if self._last is None:
            return 0, 0
        command_db, run, first = self._command_db(), 0, 0
        for index in range(self._last):
            run = run + 1 if self._is_command(index, command_db) else 0
            if run == _MIN_SPEECH_FRAMES:
                first = index + 1 - run
                break
        begin_s = max(0.0, _seconds(first) - _PRE_ROLL_S)
        end_s = _seconds(self._last) + _TAIL_S
        return round(begin_s * SAMPLE_RATE_HZ), round(end_s * SAMPLE_RATE_HZ)


class LiveSamples:
    """Decodes 16-bit chunks as they come.

    Args:
        form: of the samples; see `can_decode`.
    """

    def __init__(self, form: PcmForm) -> None:
        self._n_channels = form.n_channels
        self._resampler = Resampler(form.rate_hz)

    @staticmethod
    def can_decode(form: PcmForm) -> bool:
        return form.width == 2 and MIN_RATE_HZ <= form.rate_hz <= MAX_RATE_HZ

    def push(self, data: bytes) -> FloatArray:
        """Return `(n_samples,)` float32 at 16 kHz; half a sample at the end is left out."""
        n_bytes = len(data) // (2 * self._n_channels) * 2 * self._n_channels
        samples = np.frombuffer(data[:n_bytes], "<i2").astype(np.float32) / 32768
        mono: FloatArray = samples.reshape(-1, self._n_channels).mean(axis=1)
        return self._resampler.push(mono)


def _seconds(n_frames: int) -> float:
    return n_frames * FRAME_SAMPLES / SAMPLE_RATE_HZ


def _level_db(frame: FloatArray) -> float:
    """Return the root mean square in dB below full scale."""
    power = float(np.dot(frame, frame)) / frame.size
    return max(_SILENCE_DB, 10 * float(np.log10(power))) if power > 0 else _SILENCE_DB
