"""The end of a spoken command, found as it is spoken."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.audio.vad import (
    COMMAND_THRESHOLD,
    FRAME_SAMPLES,
    SpeechDetector,
    frames_to_seconds,
    make_detector,
    split_frames,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

SILENCE_S: Final = {"aggressive": 0.25, "default": 0.7, "relaxed": 1.25}
"""Silence that ends a command, by Wyoming's `vad_sensitivity`; the values are Home Assistant's."""

_MIN_SPEECH_FRAMES: Final = 3  # less than a tenth of a second is a click

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
_MIN_DICTATION_S: Final = (
    60.0  # what lasts so long is not listened to for its end any more
)

LIVE_SHARE: Final = 0.9
"""Share of its length that live audio takes to arrive; that of a file comes at once."""

_BUFFER_S: Final = 3.0  # a client may have kept so much, spoken before it connected
_MAX_AHEAD_S: Final = 30.0  # a client that is so far ahead of the clock sends a file

_MIN_POWER: Final = 1e-9  # of silence: -90 dB below full scale
_ANY_SPEECH_DB: Final = -200.0  # below all speech, above the -inf of what is none

SampleBounds: TypeAlias = tuple[int, int]
"""Begin and end, in samples at 16 kHz."""


class EndOfSpeechDetector:
    """Finds the end of a command as it is spoken.

    Speech is what the detector takes for it and is not much quieter than the command, so that
    neither noise nor a television in the background keeps a command from ending. Audio that comes
    faster than it is spoken is a file, and what is longer than a command is dictation: both end
    where the client says.

    Args:
        silence_s: silence that ends the command.

    Attributes:
        is_command: the audio may be a spoken command, as far as it has come.
        has_more_speech: the command went on after `note_answer`.
    """

    def __init__(
        self,
        silence_s: float,
        detector: SpeechDetector | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._silence_s = silence_s
        self._detector = detector or make_detector()
        self._clock = clock
        self._start_s = clock()
        self._rest = np.empty(0, np.float32)  # less than a frame
        self._recent_db: deque[float] = deque(maxlen=_LEVEL_FRAMES)
        self._speech_db: list[
            float
        ] = []  # of each frame; -inf of those that are no speech
        self._n_consecutive = 0  # frames of the command, up to the last one
        self._end_frame: int | None = (
            None  # where the command ends, as far as it has come
        )
        self._end_came_s = self._start_s
        self._answered_min_db: float | None = None  # set by `note_answer`
        self.is_command = True
        self.has_more_speech = False

    def push(self, audio: FloatArray) -> bool:
        """Take `(n_samples,)` at 16 kHz; return whether the command is over."""
        samples = np.concatenate([self._rest, audio])
        frames = split_frames(samples)
        self._rest = samples[frames.size :]
        audio_s = frames.size / SAMPLE_RATE_HZ + frames_to_seconds(len(self._speech_db))
        if self._answered_min_db is not None:
            self._push_after_answer(frames, self._answered_min_db)
            return False
        if audio_s > self._elapsed_s() + _MAX_AHEAD_S:
            self.is_command = False
        if not self.is_command:
            return False
        for frame in frames:
            self._push_frame(frame)
        self.is_command = audio_s < _MIN_DICTATION_S
        return self._is_over(audio_s)

    def note_answer(self) -> None:
        """Note that the command was answered: only speech that goes on is looked for."""
        has_speech = self._end_frame is not None
        self._answered_min_db = self._min_command_db() if has_speech else _ANY_SPEECH_DB
        self._n_consecutive = 0

    def _push_after_answer(self, frames: FloatArray, min_db: float) -> None:
        for frame in frames:
            if self.has_more_speech:
                return
            self._count_consecutive(self._measure_speech(frame), min_db)
            self.has_more_speech = self._n_consecutive >= _MIN_SPEECH_FRAMES

    def _measure_speech(self, frame: FloatArray) -> float:
        """Return the level of `(512,)` samples in dB of full scale; -inf without speech."""
        power = float(np.dot(frame, frame)) / frame.size
        self._recent_db.append(10 * math.log10(power + _MIN_POWER))
        is_speech = self._detector.probability(frame) >= COMMAND_THRESHOLD
        return max(self._recent_db) if is_speech else -math.inf

    def _count_consecutive(self, speech_db: float, min_db: float) -> None:
        """Count frames in a row that are of the command."""
        if speech_db >= min_db:
            self._n_consecutive += 1
        else:
            self._n_consecutive = 0

    def _push_frame(self, frame: FloatArray) -> None:
        """Note whether `(512,)` samples are of the command."""
        speech_db = self._measure_speech(frame)
        self._speech_db.append(speech_db)
        self._count_consecutive(speech_db, self._min_command_db())
        if self._n_consecutive >= _MIN_SPEECH_FRAMES:
            self._end_frame = len(self._speech_db)
            self._end_came_s = self._clock()

    def _is_over(self, audio_s: float) -> bool:
        """Return whether the command is over, of which so much has come."""
        # Silence that was recorded earlier than it came says nothing about the speaker now.
        if self._elapsed_s() < LIVE_SHARE * (audio_s - _BUFFER_S):
            return False
        if self._end_frame is None:
            return audio_s >= _NO_SPEECH_S
        # Both must agree: a network that stalled brings audio late, and then at once.
        by_audio_s = audio_s - frames_to_seconds(self._end_frame)
        by_clock_s = (self._clock() - self._end_came_s) / LIVE_SHARE
        silence_s = min(by_audio_s, by_clock_s)
        return silence_s >= self._silence_s or audio_s >= _MAX_COMMAND_S

    def _elapsed_s(self) -> float:
        return self._clock() - self._start_s

    def _min_command_db(self) -> float:
        """Return the level of the quietest speech that is the command's, not a television's."""
        levels = [level for level in self._speech_db if level > -math.inf]
        if not levels:
            return 0.0
        return float(np.percentile(levels, _COMMAND_PERCENTILE)) - _BACKGROUND_DB

    @property
    def is_pausing(self) -> bool:
        """Whether the speaker pauses after a command, and all silence that is kept has come."""
        if self._end_frame is None or not self.is_command:
            return False
        if frames_to_seconds(len(self._speech_db)) > _MAX_COMMAND_S:
            return False
        return frames_to_seconds(len(self._speech_db) - self._end_frame) >= _TAIL_S

    def is_lone_command(self) -> bool:
        """Return whether audio came no faster than it was spoken, and all speech is the command's.

        Outside the bounds there is then silence or noise.
        """
        audio_s = frames_to_seconds(len(self._speech_db))
        is_live = self._elapsed_s() >= LIVE_SHARE * audio_s
        if self._end_frame is None or not (self.is_command and is_live):
            return False
        begin, end = self.bounds()
        before = self._speech_db[: begin // FRAME_SAMPLES]
        after = self._speech_db[math.ceil(end / FRAME_SAMPLES) :]
        return all(level == -math.inf for level in before + after)

    def bounds(self) -> SampleBounds:
        """Return where the command begins and ends, with a little around it.

        A sound before it, such as that of a satellite that was woken, is left out.
        """
        if self._end_frame is None:
            return 0, 0
        begin_s = max(
            0.0, frames_to_seconds(self._first_frame(self._end_frame)) - _PRE_ROLL_S
        )
        end_s = frames_to_seconds(self._end_frame) + _TAIL_S
        return round(begin_s * SAMPLE_RATE_HZ), round(end_s * SAMPLE_RATE_HZ)

    def _first_frame(self, end_frame: int) -> int:
        """Return the first frame of the command: of the first run that is no click."""
        min_db = self._min_command_db()
        n_consecutive = 0
        for index in range(end_frame):
            if self._speech_db[index] < min_db:
                n_consecutive = 0
                continue
            n_consecutive += 1
            if n_consecutive == _MIN_SPEECH_FRAMES:
                return index + 1 - n_consecutive
        return 0
