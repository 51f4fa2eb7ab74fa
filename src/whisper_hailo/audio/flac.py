"""FLAC as bytes that are appended to a file."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import soundfile
from numpy.typing import NDArray

from whisper_hailo.core.types import SAMPLE_RATE_HZ


class FlacBytes:
    """Encodes 16 kHz mono into bytes, for a file that the caller writes.

    `fresh` are to be appended to the file, `patches` to overwrite it at a place: the header, at
    the end.
    """

    def __init__(self) -> None:
        self.fresh = bytearray()
        self.patches: list[tuple[int, bytes]] = []
        self._n_done = 0  # bytes that are in the file
        self._at = 0
        self._encoder = soundfile.SoundFile(
            self, "w", SAMPLE_RATE_HZ, 1, format="FLAC", subtype="PCM_16"
        )
        self._encoder.date = datetime.now().astimezone().isoformat(timespec="milliseconds")

    def add(self, samples: NDArray[np.int16]) -> None:
        """Encode `(n_samples,)`; up to 4095 of them are buffered."""
        self._encoder.write(samples)

    def finish(self) -> None:
        """Encode the rest, and complete the header."""
        self._encoder.close()

    def note_written(self) -> None:
        """Clear the bytes that were written to the file."""
        self._n_done += len(self.fresh)
        self.fresh.clear()

    # What libsndfile asks of a file.

    def seek(self, offset: int, whence: int = 0) -> int:
        end = self._n_done + len(self.fresh)
        self._at = offset + (0, self._at, end)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, _n_bytes: int) -> bytes:
        return b""

    def write(self, data: bytes) -> int:
        raw, at = bytes(data), self._at - self._n_done
        if at < 0:
            self.patches.append((self._at, raw))
        else:
            self.fresh[at : at + len(raw)] = raw
        self._at += len(raw)
        return len(raw)
