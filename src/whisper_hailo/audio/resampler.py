"""Audio of any rate to 16 kHz, piece by piece."""

from __future__ import annotations

from typing import Final

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

MIN_RATE_HZ: Final = 1_000
MAX_RATE_HZ: Final = 768_000


class Resampler:
    """Mono audio that comes piece by piece.

    Raises:
        OptionError: a rate that no sound has.
    """

    def __init__(self, rate_hz: int) -> None:
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise OptionError(f"--rate is {rate_hz} Hz, expected {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz")
        self._stream = None
        if rate_hz != SAMPLE_RATE_HZ:
            import soxr

            self._stream = soxr.ResampleStream(
                rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality="HQ"
            )

    def push(self, audio: FloatArray) -> FloatArray:
        """`(n,)` samples in, as many as are ready out; the others follow."""
        if self._stream is None:
            return audio
        resampled: FloatArray = self._stream.resample_chunk(audio)
        return resampled

    def finish(self) -> FloatArray:
        """What is left at the end."""
        if self._stream is None:
            return np.empty(0, np.float32)
        rest: FloatArray = self._stream.resample_chunk(np.empty(0, np.float32), last=True)
        return rest
