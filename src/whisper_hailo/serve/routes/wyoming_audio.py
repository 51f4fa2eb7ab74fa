"""What Wyoming clients send: events, read with bounds; recordings; the end of a spoken command."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, BinaryIO, Final, cast

import numpy as np
from wyoming.event import Event

from whisper_hailo.audio.vad import (
    COMMAND_THRESHOLD,
    FRAME_SAMPLES,
    SpeechDetector,
    frames_to_seconds,
    make_detector,
    split_frames,
)
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.strict_json import MismatchError, parse_json_object
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.serve.audio import AudioDecoders, PcmFormat, SampleStream, check_duration
from whisper_hailo.serve.errors import RejectedError, TooLargeError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota, Reservation

LINE_BYTES: Final = 64 << 10
_DATA_BYTES: Final = 1 << 20
_PAYLOAD_BYTES: Final = 4 << 20  # two minutes of sound; clients send fractions of a second

_PIECE_BYTES: Final = 64 << 10
_IN_MEMORY_BYTES: Final = 4 << 20


class MalformedError(RejectedError):
    """Bytes that are no event."""

    kind, status = "malformed", 400


async def read_event(reader: asyncio.StreamReader, stored: Reservation) -> Event | None:
    """Return the next event; `None` at the end of the connection.

    Wyoming's own function takes as many bytes as a client says, and ends at a line that is none as
    if the connection had.
    """
    try:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            return None
        head = _parse_object(line)
        kind, data = head.get("type"), head.get("data") or {}
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise MalformedError("a header has no type, or its data is no object")
        length = _parse_length(head, "data_length", _DATA_BYTES)
        data |= _parse_object(await reader.readexactly(length) or b"{}")
        payload = bytearray()
        n_payload = _parse_length(head, "payload_length", _PAYLOAD_BYTES)
        while left := n_payload - len(payload):
            piece = await reader.readexactly(min(left, _PIECE_BYTES))
            stored.take(len(piece))
            payload += piece
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except ValueError as error:
        raise MalformedError(f"a header has more than {LINE_BYTES} bytes") from error
    return Event(kind, data, bytes(payload) or None)


def _parse_length(head: dict[str, Any], name: str, most: int) -> int:
    length = head.get(name) or 0
    if not isinstance(length, int) or not 0 <= length <= most:
        raise MalformedError(f"{name} is {str(length)[:40]}, expected 0 to {most}")
    return length


def _parse_object(text: bytes) -> dict[str, Any]:
    try:
        return parse_json_object(text)
    except MismatchError as error:
        raise MalformedError(f"what came is {error}; this server speaks Wyoming") from error


class WyomingRecording:
    """A recording that comes in chunks of any size; `stack` holds its file and its bytes.

    Attributes:
        end: finds the end of a command; `None` where the client says where it ends.
    """

    def __init__(self, limits: LimitOptions, quota: Quota) -> None:
        self.stack = ExitStack()
        self.end: EndOfSpeechDetector | None = None
        self._stored = self.stack.enter_context(Reservation(quota))
        self._limits = limits
        self._form: PcmFormat | None = None
        self._samples: SampleStream | None = None
        self._heard: list[FloatArray] = []
        self._n_bytes = 0
        file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - of the stack
        self._file = self.stack.enter_context(file)

    def add(self, event: Event, silence_s: float | None) -> bool:
        """Keep a chunk; return whether the command is over, by `silence_s` if that ends one."""
        values = [event.data.get(name) for name in ("rate", "width", "channels")]
        if not all(isinstance(value, int) and 0 < value < 1 << 20 for value in values):
            raise MalformedError("a chunk has no rate, width and channels that are whole numbers")
        form, data = PcmFormat(*cast("list[int]", values)), event.payload or b""
        if self._form not in (None, form):
            raise MalformedError("the form of the samples changed; send each recording in one form")
        if self._form is None and silence_s is not None and form.can_stream:
            self._samples = SampleStream(form.rate_hz, form.n_channels)
            self.end = EndOfSpeechDetector(silence_s)
        self._form = form
        self._n_bytes += len(data)
        seconds = self._n_bytes / (form.rate_hz * form.width * form.n_channels)
        check_duration(seconds, self._limits.max_audio_s)
        most = self._limits.max_upload_bytes
        if self._n_bytes > most:
            raise TooLargeError(f"more than {most} bytes came; send less at once")
        self._stored.take(len(data))
        self._file.write(data)
        if self.end is None or self._samples is None:
            return False
        samples = self._samples.push(data)
        is_over = self.end.push(samples)
        if self.end.is_file:
            self._heard = []
        else:
            self._stored.take(samples.nbytes)
            self._heard.append(samples)
        return is_over

    def command(self, bounds: tuple[int, int]) -> FloatArray:
        """Return `(n_samples,)` at 16 kHz of a live command."""
        return np.concatenate(self._heard)[slice(*bounds)]

    async def audio(self, decoders: AudioDecoders) -> FloatArray:
        """Return `(n_samples,)` at 16 kHz of the whole."""
        if not self._n_bytes:
            raise AudioError("no sound came between audio-start and audio-stop; send some")
        return await decoders.decode(cast(BinaryIO, self._file), None, self._stored, pcm=self._form)


SILENCE_S: Final = {"aggressive": 0.25, "default": 0.7, "relaxed": 1.25}
"""Silence that ends a command, by Wyoming's `vad_sensitivity`; the values are Home Assistant's."""

_MIN_SPEECH_FRAMES: Final = 3  # less than a tenth of a second is a click

_PRE_ROLL_S: Final = 0.4
_TAIL_S: Final = 0.3  # audio that is kept before and after a command

_BACKGROUND_DB: Final = 12.0
_COMMAND_PERCENTILE: Final = 85.0
"""Speech that is so far below the loud part of the command is a television's."""

_LEVEL_FRAMES: Final = 8
"""Levels are the highest of a quarter of a second: soft syllables belong to their word."""

_NO_SPEECH_S: Final = 10.0
_MAX_COMMAND_S: Final = 30.0

LIVE_SHARE: Final = 0.9
"""Share of its length that live audio takes to arrive; that of a file comes at once."""

_BUFFER_S: Final = 3.0  # A client may have kept so much, spoken before it connected
_MAX_AHEAD_S: Final = 30.0  # A client that is so far ahead of the clock sends a file

_LEAST_POWER: Final = 1e-9  # of silence: -90 dB below full scale


class EndOfSpeechDetector:
    """Finds the end of a command as it is spoken.

    Speech is what the detector takes for it and is not much quieter than the command, so that
    neither noise nor a television in the background keeps a command from ending. Audio that comes
    faster than it is spoken is a file: it ends where the client says. `silence_s` of silence end
    the command.
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
        self._rest = np.empty(0, np.float32)
        self._recent_db: deque[float] = deque(maxlen=_LEVEL_FRAMES)
        self._speech_db: list[float] = []  # of each frame; -inf of those that are no speech
        self._run = 0
        self._last: int | None = None
        self._last_came_s = self._start_s
        self.is_file = False  # audio has come too fast to be spoken

    def push(self, audio: FloatArray) -> bool:
        """Take `(n_samples,)` at 16 kHz; return whether the command is over."""
        samples = np.concatenate([self._rest, audio])
        frames = split_frames(samples)
        self._rest = samples[frames.size :]
        came_s = frames.size / SAMPLE_RATE_HZ + frames_to_seconds(len(self._speech_db))
        self.is_file |= came_s > self._clock() - self._start_s + _MAX_AHEAD_S
        if self.is_file:
            return False
        for frame in frames:
            power = float(np.dot(frame, frame)) / frame.size
            self._recent_db.append(10 * math.log10(power + _LEAST_POWER))
            is_speech = self._detector.probability(frame) >= COMMAND_THRESHOLD
            self._speech_db.append(max(self._recent_db) if is_speech else -math.inf)
            is_command = self._speech_db[-1] >= self._least_db()
            self._run = self._run + 1 if is_command else 0
            if self._run >= _MIN_SPEECH_FRAMES:
                self._last, self._last_came_s = len(self._speech_db), self._clock()
        now_s, heard_s = self._clock(), came_s
        if now_s - self._start_s < LIVE_SHARE * (heard_s - _BUFFER_S):
            return False
        if self._last is None:
            return heard_s >= _NO_SPEECH_S
        by_audio_s = heard_s - frames_to_seconds(self._last)
        by_clock_s = (now_s - self._last_came_s) / LIVE_SHARE
        silence_s = min(by_audio_s, by_clock_s)
        return silence_s >= self._silence_s or heard_s >= _MAX_COMMAND_S

    def _least_db(self) -> float:
        """Return the level of the quietest speech that is the command's, not a television's."""
        levels = [level for level in self._speech_db if level > -math.inf]
        return float(np.percentile(levels, _COMMAND_PERCENTILE)) - _BACKGROUND_DB if levels else 0.0

    @property
    def is_pausing(self) -> bool:
        """Whether the speaker pauses, and all silence that is kept has come."""
        if self._last is None or self.is_file:
            return False
        return frames_to_seconds(len(self._speech_db) - self._last) >= _TAIL_S

    def is_lone_command(self) -> bool:
        """Return whether audio came no faster than it was spoken, and all speech is the command's.

        What is outside of the bounds is then silence or noise.
        """
        heard_s = frames_to_seconds(len(self._speech_db))
        is_live = self._clock() - self._start_s >= LIVE_SHARE * heard_s
        if self._last is None or self.is_file or not is_live:
            return False
        begin, end = (samples / FRAME_SAMPLES for samples in self.bounds())
        outside = self._speech_db[: int(begin)] + self._speech_db[math.ceil(end) :]
        return max(outside, default=-math.inf) == -math.inf

    def bounds(self) -> tuple[int, int]:
        """Return the samples where the command begins and ends, with a little around it.

        A sound before it, such as that of a satellite that was woken, is left out.
        """
        if self._last is None:
            return 0, 0
        least_db, run, first = self._least_db(), 0, 0
        for index in range(self._last):
            run = run + 1 if self._speech_db[index] >= least_db else 0
            if run == _MIN_SPEECH_FRAMES:
                first = index + 1 - run
                break
        begin_s = max(0.0, frames_to_seconds(first) - _PRE_ROLL_S)
        end_s = frames_to_seconds(self._last) + _TAIL_S
        return round(begin_s * SAMPLE_RATE_HZ), round(end_s * SAMPLE_RATE_HZ)
