"""A recording that a Wyoming client sends in chunks, and the spoken command in it."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from typing import BinaryIO, Final, cast

import numpy as np
from wyoming.event import Event

from whisper_hailo.audio.vad import FRAME_SAMPLES
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.serve.audio import (
    AudioDecoders,
    PcmFormat,
    SampleStream,
    check_duration,
)
from whisper_hailo.serve.errors import TooLargeError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota, Reservation
from whisper_hailo.serve.routes.wyoming.end_of_speech import (
    EndOfSpeechDetector,
    SampleBounds,
)
from whisper_hailo.serve.routes.wyoming.event_reader import MalformedError
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio

_IN_MEMORY_BYTES: Final = 4 << 20

_STALL_S: Final = 60.0
"""Longest silence of a client in a recording, and longest delay behind the slowest rate."""

_MIN_BYTES_PER_SECOND: Final = 4096
"""Half of what telephones have, the least of what is spoken and sent."""

_DETECTOR_BYTES: Final = 5 << 19
"""2.5 MiB: what a speech detector takes, beside the samples."""

_MAX_VALUE: Final = 1 << 20  # of a rate, a width, a number of channels


class WyomingRecording(Closing):
    """A recording that comes in chunks of any size."""

    def __init__(self, limits: LimitOptions, quota: Quota) -> None:
        self._limits = limits
        self._resources = ExitStack()
        self._reservation = self._resources.enter_context(Reservation(quota))
        file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by `close`
        self._file = self._resources.enter_context(file)
        self._n_bytes = 0
        self._begin_s = time.monotonic()
        self._format: PcmFormat | None = None
        # The end of a command is looked for in samples, as long as the audio may be one.
        self._stream: SampleStream | None = None
        self._detector: EndOfSpeechDetector | None = None
        self._live_audio: list[FloatArray] = []
        self._live_reservation = self._resources.enter_context(Reservation(quota))
        self._is_answered = False

    def add_chunk(self, chunk: Event, silence_s: float) -> bool:
        """Keep a chunk; return whether the command is over, which so much silence ends.

        Raises:
            MalformedError: the chunk's format cannot be, or is not that of earlier chunks.
            TooLargeError: the recording is longer than one may be.
            BusyError: the recordings of all clients leave no room for it.
        """
        pcm = _parse_format(chunk)
        if self._format is None:
            self._format = pcm
            if pcm.can_stream:
                self._stream = SampleStream(pcm.rate_hz, pcm.n_channels)
        elif pcm != self._format:
            raise MalformedError(
                "the sample format changed; use one format for each recording"
            )
        data = chunk.payload or b""
        self._store_samples(data, pcm)
        if self._stream is None:
            return False
        samples = self._stream.push(data)
        detector = self._detector
        if detector is None:
            # A client that sends less than a frame needs no detector.
            samples = np.concatenate([*self._live_audio, samples])
            self.free_live_audio()
            if samples.size < FRAME_SAMPLES:
                self._live_reservation.take(samples.nbytes)
                self._live_audio.append(samples)
                return False
            detector = self._make_detector(silence_s)
        is_over = detector.push(samples)
        if not detector.is_command:
            self._stop_detection()
        elif not self._is_answered:
            self._live_reservation.take(samples.nbytes)
            self._live_audio.append(samples)
        return is_over

    def _make_detector(self, silence_s: float) -> EndOfSpeechDetector:
        self._live_reservation.take(_DETECTOR_BYTES)
        self._detector = EndOfSpeechDetector(silence_s)
        return self._detector

    def _stop_detection(self) -> None:
        """Transcribe the recording as a whole, from its file."""
        self._stream = None
        self._detector = None
        self.free_live_audio()

    def free_live_audio(self) -> None:
        """Drop the samples of a command that is answered, or is none."""
        self._live_audio.clear()
        self._live_reservation.close()

    def _store_samples(self, data: bytes, pcm: PcmFormat) -> None:
        """Write samples to the file, within the limits."""
        self._n_bytes += len(data)
        check_duration(
            self._n_bytes / (pcm.rate_hz * pcm.frame_bytes), self._limits.max_audio_s
        )
        max_bytes = self._limits.max_upload_bytes
        if self._n_bytes > max_bytes:
            raise TooLargeError(
                f"the recording has more than {max_bytes} bytes; send less at once"
            )
        self._reservation.take(len(data))
        self._file.write(data)

    @property
    def patience_s(self) -> float:
        """How long to wait for the next chunk: less, the less audio came."""
        elapsed_s = time.monotonic() - self._begin_s
        delay_s = elapsed_s - self._n_bytes / _MIN_BYTES_PER_SECOND
        return max(0.0, _STALL_S - max(0.0, delay_s))

    def stop(self) -> None:
        """Note that the client ended the recording, which is then transcribed as a whole.

        Only of a lone command, the silence around it is left out.
        """
        is_command = self._detector is not None and self._detector.is_lone_command()
        if self._is_answered or not is_command:
            self._stop_detection()

    def note_answer(self) -> None:
        """Note that the command in it is answered, and look for more speech."""
        self._is_answered = True
        if self._detector is not None:
            self._detector.note_answer()

    @property
    def is_answered(self) -> bool:
        """Whether a command in it was answered before the client stopped."""
        return self._is_answered

    @property
    def has_more_speech(self) -> bool:
        """Whether speech came after the command that was answered."""
        return self._detector is not None and self._detector.has_more_speech

    @property
    def command_bounds(self) -> SampleBounds | None:
        """Where the command is; `None` if the whole is to be transcribed."""
        return None if self._detector is None else self._detector.bounds()

    @property
    def pause_bounds(self) -> SampleBounds | None:
        """Where the command is, if the speaker pauses after it; else `None`."""
        if self._detector is None or not self._detector.is_pausing:
            return None
        return self._detector.bounds()

    def cut_command(self, bounds: SampleBounds) -> FloatArray:
        """Return `(n_samples,)` at 16 kHz of a live command."""
        begin, end = bounds
        return np.concatenate(self._live_audio)[begin:end]

    async def open_whole(self, decoders: AudioDecoders) -> FloatArray | OpenedAudio:
        """Return the whole: `(n_samples,)` at 16 kHz, or audio that is still decoded.

        Raises:
            AudioError: there is no audio, or it cannot be decoded.
        """
        if not self._n_bytes:
            raise AudioError(
                "no audio between audio-start and audio-stop; send audio-chunk events"
            )
        file = cast(BinaryIO, self._file)
        return await decoders.open_recording(
            file, None, self._reservation, pcm=self._format
        )

    def close(self) -> None:
        """Delete the file, and give back all room."""
        self._resources.close()


def _parse_format(chunk: Event) -> PcmFormat:
    """Return the format of a chunk's samples."""
    values = [chunk.data.get(name) for name in ("rate", "width", "channels")]
    for value in values:
        if not isinstance(value, int) or not 0 < value < _MAX_VALUE:
            raise MalformedError("a chunk needs rate, width and channels as integers")
    rate_hz, width, n_channels = cast("list[int]", values)
    return PcmFormat(rate_hz, width, n_channels)
