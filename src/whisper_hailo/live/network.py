"""RTSP, HTTP and other streams through FFmpeg (`av`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.sources import Block

_TIMEOUT_S: Final = 10.0

_OWN_SPEED: Final = ("rtsp:", "rtsps:", "rtmp:", "rtp:", "udp:", "srt:")
"""Senders that wait for nobody."""


class NetworkSource(Closing):
    """A stream at an address.

    What has a length is a recording and is read as fast as it is heard; what has none is live, and
    so is what comes at its own speed.

    Args:
        address: such as `rtsp://camera/audio` or `https://host/stream.mp3`.
    """

    def __init__(self, address: str) -> None:
        self.name = address
        self.live = True
        self.endless = True
        self._container: Any = None
        self._closed = False
        self._reading = False
        self._ending = threading.Lock()

    def open(self) -> Self:
        """Connect.

        Raises:
            AudioError: PyAV is not installed, the address does not answer, or gives no sound.
        """
        try:
            import av
        except ImportError as error:
            raise AudioError(
                f"{self.name} needs PyAV, which is not installed ({error}); {to_add('media')}"
            ) from error
        options = {"rtsp_transport": "tcp"} if self.name.startswith("rtsp") else {}
        try:
            self._container = av.open(self.name, timeout=_TIMEOUT_S, options=options)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise AudioError(
                f"{self.name} cannot be opened ({error}); check the address and the network"
            ) from error
        if not self._container.streams.audio:
            self._container.close()
            raise AudioError(f"{self.name} has no sound; give an address with an audio stream")
        self.endless = self._container.duration is None
        self.live = self.endless or self.name.lower().startswith(_OWN_SPEED)
        return self

    def blocks(self) -> Iterator[Block]:
        """Decoded sound as it arrives."""
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
            for frame in self._container.decode(audio=0):
                if self._closed:
                    return
                captured_s = time.perf_counter() if self.live else None
                for out in resampler.resample(frame):
                    yield Block(_samples(out), captured_s)
            for out in resampler.resample(None):
                yield Block(_samples(out))
        except (av.FFmpegError, OSError) as error:
            raise AudioError(
                f"{self.name} broke off ({error}); start again when it is back"
            ) from error

    def close(self) -> None:
        """Disconnect at the next piece.

        Whoever reads closes the connection: FFmpeg would go on in memory that is gone.
        """
        with self._ending:
            self._closed = True
            if self._reading or self._container is None:
                return
        self._container.close()


def _samples(frame: Any) -> FloatArray:  # noqa: ANN401 - a class without types
    samples: FloatArray = frame.to_ndarray().reshape(-1).astype(np.float32)
    return samples
