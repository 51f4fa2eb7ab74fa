"""FLAC encoded into bytes, for files that grow."""

from __future__ import annotations

import os
from datetime import datetime

import numpy as np
import soundfile
from numpy.typing import NDArray

from whisper_hailo.core.types import SAMPLE_RATE_HZ


class FlacBytes:
    """Encodes 16 kHz mono into bytes, for a file that the caller writes.

    Attributes:
        fresh: bytes to append to the file.
        patches: positions in the file with the bytes to overwrite there: the header, at the end.
    """

    def __init__(self) -> None:
        self.fresh = bytearray()
        self.patches: list[tuple[int, bytes]] = []
        self._n_written = 0  # bytes that are in the file already
        self._position = 0
        self._encoder = soundfile.SoundFile(
            self, "w", SAMPLE_RATE_HZ, 1, format="FLAC", subtype="PCM_16"
        )
        self._encoder.date = (
            datetime.now().astimezone().isoformat(timespec="milliseconds")
        )

    def add(self, samples: NDArray[np.int16]) -> None:
        """Encode `(n_samples,)`; up to 4095 of them are buffered."""
        self._encoder.write(samples)

    def finish(self) -> None:
        """Encode the rest, and complete the header."""
        self._encoder.close()

    def note_written(self) -> None:
        """Clear the bytes that were written to the file."""
        self._n_written += len(self.fresh)
        self.fresh.clear()

    # The methods that libsndfile calls of a file.

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self._n_written + len(self.fresh)
        self._position = offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, _n_bytes: int) -> bytes:
        return b""

    def write(self, data: bytes) -> int:
        content = bytes(data)
        start = self._position - self._n_written
        if start < 0:
            self.patches.append((self._position, content))
        else:
            self.fresh[start : start + len(content)] = content
        self._position += len(content)
        return len(content)
