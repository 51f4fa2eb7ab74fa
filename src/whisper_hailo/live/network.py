"""RTSP, HTTP and other streams through FFmpeg (`av`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.sources import Block

_TIMEOUT_S: Final = 10.0


class NetworkSource(Closing):
    """A stream at an address.

    What has a length is a recording and is read as fast as it is heard; what has none is live.

    Args:
        address: such as `rtsp://camera/audio` or `https://host/stream.mp3`.
    """

    def __init__(self, address: str) -> None:
        self.name = address
        self.live = True
        self.endless = True
        self._container: Any = None
        self._closed = False

    def open(self) -> Self:
        """Connect.

        Raises:
            AudioError: PyAV is not installed, the address does not answer, or gives no sound.
        """
        try:
            import av
        except ImportError as error:
            raise AudioError(
                f"{self.name} needs PyAV, which is not installed ({error}); "
                "pip install 'whisper-hailo[media]'"
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
        self.live = self.endless = self._container.duration is None
        return self

    def blocks(self) -> Iterator[Block]:
        """Decoded sound as it arrives."""
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
        """Disconnect at the next piece."""
        self._closed = True
        container, self._container = self._container, None
        if container is not None:
            container.close()


def _samples(frame: Any) -> FloatArray:  # noqa: ANN401 - a class without types
    samples: FloatArray = frame.to_ndarray().reshape(-1).astype(np.float32)
    return samples
