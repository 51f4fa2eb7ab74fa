"""RTSP, HTTP and other streams through FFmpeg (`av`), or a browser's microphone over a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import AudioQueue, Block, Pace

TIMEOUT_S: Final = 10.0
"""Of each answer."""

MAX_WAIT_S: Final = 30.0
_MIN_SOUND_S: Final = 3.0
"""A sender that gives less sound than this while it is waited for so long is given up."""

_REAL_TIME: Final = ("rtsp:", "rtsps:", "rtmp:", "rtp:", "udp:", "srt:")
"""Protocols without flow control: the sender does not wait."""


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
        self._state_lock = threading.Lock()

    def open(self) -> Self:
        """Connect."""
        try:
            import av
        except ImportError as error:
            raise AudioError(
                f"{self.name} needs PyAV, which is not installed ({error}); "
                f"{install_command('media')}"
            ) from error
        self._closed = False
        self._reading = False
        options = {"rtsp_transport": "tcp"} if self.name.startswith("rtsp") else {}
        try:
            self._container = av.open(self.name, timeout=TIMEOUT_S, options=options)
        except (av.FFmpegError, OSError, ValueError) as error:
            reason = f"cannot be opened ({error})"
            if isinstance(error, av.ExitError):  # the time-out
                reason = f"does not answer within {TIMEOUT_S:g} s"
            raise AudioError(
                f"{self.name} {reason}; check the address and the network"
            ) from error
        if not self._container.streams.audio:
            self._container.close()
            raise AudioError(
                f"{self.name} has no audio; give an address with an audio stream"
            )
        self.endless = self._container.duration is None
        if not self.name.lower().startswith(_REAL_TIME):
            self.pace = Pace.BUFFERED if self.endless else Pace.PULL
        return self

    def blocks(self) -> Iterator[Block]:
        """Yield decoded audio as it arrives."""
        with self._state_lock:
            if self._closed or self._container is None:
                return
            self._reading = True
        import av

        try:
            resampler = av.AudioResampler(
                format="flt", layout="mono", rate=SAMPLE_RATE_HZ
            )
            yield from self._decode(resampler)
        except (av.FFmpegError, OSError) as error:
            timed_out = isinstance(error, av.ExitError)
            reason = f"no data for {TIMEOUT_S:g} s" if timed_out else str(error)
            raise AudioError(
                f"{self.name} broke off ({reason}); check its sender"
            ) from error
        finally:
            self._container.close()

    def _decode(self, resampler: Any) -> Iterator[Block]:  # noqa: ANN401 - a class without types
        """Yield the audio of all packets, as long as enough of it comes."""
        audio_stream = self._container.streams.audio[0]
        packets = self._container.demux()
        # FFmpeg's time-out is of packets, which may hold no audio.
        waited_s = 0.0
        n_samples = 0
        while not self._closed:
            begin_s = time.perf_counter()
            packet = next(packets, None)
            if packet is None:
                break
            now_s = time.perf_counter()
            waited_s += now_s - begin_s
            if packet.stream is audio_stream:
                captured_s = None if self.pace is Pace.PULL else now_s
                for frame in packet.decode():
                    for out in resampler.resample(frame):
                        n_samples += out.samples
                        yield Block(out.to_ndarray().reshape(-1), captured_s)
            if waited_s > MAX_WAIT_S:
                if n_samples < _MIN_SOUND_S * SAMPLE_RATE_HZ:
                    raise AudioError(
                        f"{self.name} delivered less than {_MIN_SOUND_S:g} s of audio within "
                        f"{MAX_WAIT_S:g} s; check the address and the network"
                    )
                waited_s = 0.0
                n_samples = 0
        if self._closed:
            return
        for out in resampler.resample(None):
            yield Block(out.to_ndarray().reshape(-1))
        if self.endless:  # FFmpeg reports a recording that breaks off
            raise AudioError(
                f"{self.name} ended: the sender closed the stream; check the sender"
            )

    def close(self) -> None:
        """Disconnect at the next block, where the reader does: FFmpeg would use freed memory."""
        with self._state_lock:
            self._closed = True
            if self._reading or self._container is None:
                return
        self._container.close()


class BrowserSource(Closing):
    """Takes 16-bit little-endian mono samples at 16 kHz from a browser, over a socket."""

    pace = Pace.PULL  # the browser keeps them meanwhile
    endless = True
    name = "a browser's microphone"

    def __init__(self) -> None:
        self._queue = AudioQueue()

    def push(self, raw: bytes) -> float:
        """Take whole samples, on the server's thread; return the seconds without room."""
        n_even = len(raw) & ~1
        samples = np.frombuffer(raw[:n_even], dtype="<i2")
        audio = samples.astype(np.float32) / 32768.0
        return self._queue.put(Block(audio, time.perf_counter())) / SAMPLE_RATE_HZ

    def blocks(self) -> Iterator[Block]:
        """Yield what came, until the source is closed."""
        return self._queue.blocks()

    def close(self) -> None:
        self._queue.end()
