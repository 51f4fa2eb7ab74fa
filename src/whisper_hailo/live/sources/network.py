"""RTSP, HTTP and other streams through FFmpeg (`av`), or a browser's microphone over a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.sources.source import AudioQueue, Block, Pace

TIMEOUT_S: Final = 10.0
"""For each answer."""

MAX_WAIT_S: Final = 30.0
_LEAST_SOUND_S: Final = 3.0
"""A sender that was waited for so long has given so much sound, or it will not do."""

_OWN_SPEED: Final = ("rtsp:", "rtsps:", "rtmp:", "rtp:", "udp:", "srt:")
"""Senders without flow control."""


class NetworkSource(Closing):
    """A stream at an address.

    With a length it is a recording and read as fast as it is transcribed; without, or when it comes
    at its own speed, it is live.
    """

    def __init__(self, address: str) -> None:
        self.name = address
        self.pace = Pace.REAL_TIME
        self.endless = True
        self._container: Any = None
        self._closed = False
        self._reading = False
        self._ending = threading.Lock()

    def open(self) -> Self:
        """Connect."""
        try:
            import av
        except ImportError as error:
            raise AudioError(
                f"{self.name} needs PyAV, which is not installed ({error}); "
                f"{install_command('media')}"
            ) from error
        self._closed = self._reading = False
        options = {"rtsp_transport": "tcp"} if self.name.startswith("rtsp") else {}
        try:
            self._container = av.open(self.name, timeout=TIMEOUT_S, options=options)
        except av.ExitError as error:
            raise AudioError(
                f"{self.name} does not answer within {TIMEOUT_S:g} s; check the address and the "
                "network"
            ) from error
        except (av.FFmpegError, OSError, ValueError) as error:
            raise AudioError(
                f"{self.name} cannot be opened ({error}); check the address and the network"
            ) from error
        if not self._container.streams.audio:
            self._container.close()
            raise AudioError(f"{self.name} has no sound; give an address with an audio stream")
        self.endless = self._container.duration is None
        if not self.name.lower().startswith(_OWN_SPEED):
            self.pace = Pace.BUFFERED if self.endless else Pace.PULL
        return self

    def blocks(self) -> Iterator[Block]:
        """Yield decoded audio as it arrives."""
        with self._ending:
            if self._closed or self._container is None:
                return
            self._reading = True
        try:
            yield from self._decoded()
        finally:
            self._container.close()

    def _decoded(self) -> Iterator[Block]:
        import av

        resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE_HZ)
        try:
            yield from self._resampled(resampler)
        except av.ExitError as error:
            raise AudioError(
                f"{self.name} broke off: nothing came for {TIMEOUT_S:g} s; check its sender"
            ) from error
        except (av.FFmpegError, OSError) as error:
            raise AudioError(f"{self.name} broke off ({error}); check its sender") from error

    def _resampled(self, resampler: Any) -> Iterator[Block]:  # noqa: ANN401 - a class without types
        """Yield the audio of all packets, as long as enough of it comes."""
        sound, wait = self._container.streams.audio[0], AudioWatchdog()
        packets = self._container.demux()
        while (packet := wait.for_next(packets)) is not None and not self._closed:
            if packet.stream is sound:
                captured_s = None if self.pace is Pace.PULL else time.perf_counter()
                for frame in packet.decode():
                    for out in resampler.resample(frame):
                        wait.n_samples += out.samples
                        yield Block(_samples(out), captured_s)
            if wait.is_in_vain():
                raise AudioError(
                    f"{self.name} gave less than {_LEAST_SOUND_S:g} s of sound while it was waited "
                    f"for {MAX_WAIT_S:g} s; check the address and the network"
                )
        if self._closed:
            return
        for out in resampler.resample(None):
            yield Block(_samples(out))
        if self.endless:  # FFmpeg reports a recording that breaks off
            raise AudioError(f"{self.name} broke off: its sender ended the stream; see why it did")

    def close(self) -> None:
        """Disconnect at the next block, where the reader does: FFmpeg would use freed memory."""
        with self._ending:
            self._closed = True
            if self._reading or self._container is None:
                return
        self._container.close()


@dataclass(slots=True)
class AudioWatchdog:
    """Detects a sender that gives too little audio.

    FFmpeg has a time-out per packet, but packets may be small or hold no audio.
    """

    waited_s: float = 0.0
    n_samples: int = 0

    def for_next(self, packets: Iterator[Any]) -> Any:  # noqa: ANN401 - a class without types
        """Return the next packet; `None` at the end."""
        begin_s = time.perf_counter()
        packet = next(packets, None)
        self.waited_s += time.perf_counter() - begin_s
        return packet

    def is_in_vain(self) -> bool:
        """Return whether too little came while it was waited for `MAX_WAIT_S`."""
        if self.waited_s <= MAX_WAIT_S:
            return False
        too_little = self.n_samples < _LEAST_SOUND_S * SAMPLE_RATE_HZ
        self.waited_s, self.n_samples = 0.0, 0
        return too_little


def _samples(frame: Any) -> FloatArray:  # noqa: ANN401 - a class without types
    samples: FloatArray = frame.to_ndarray().reshape(-1).astype(np.float32)
    return samples


class BrowserSource(Closing):
    """Takes 16-bit little-endian mono samples at 16 kHz from a browser, over a socket."""

    pace = Pace.PULL  # the browser keeps them meanwhile
    endless = True
    name = "a browser's microphone"

    def __init__(self) -> None:
        self._queue = AudioQueue()

    def push(self, raw: bytes) -> float:
        """Take whole samples, on the server's thread; return the seconds without room."""
        samples = np.frombuffer(raw[: len(raw) & ~1], dtype="<i2").astype(np.float32) / 32768.0
        return self._queue.put(Block(samples, time.perf_counter())) / SAMPLE_RATE_HZ

    def blocks(self) -> Iterator[Block]:
        """Yield what came, until the source is closed."""
        return self._queue.blocks()

    def close(self) -> None:
        self._queue.end()
