"""How loud a stream is."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

SILENCE_DB: Final = -90.0
"""The least that is told: one step of 16 bits."""

_EACH: Final = SAMPLE_RATE_HZ // 8
"""Samples of one reading."""


class Meter:
    """Reads the level of a stream some eight times a second of it."""

    def __init__(self) -> None:
        self._power = 0.0
        self._n_samples = 0

    def level_db(self, audio: FloatArray) -> float | None:
        """The level since the reading before, if one is due.

        Args:
            audio: `(n_samples,)` float32, the stream's next.

        Returns:
            root mean square in dB below full scale, `SILENCE_DB` to 0; `None`: not due.
        """
        self._power += float(np.dot(audio, audio))
        self._n_samples += audio.size
        if self._n_samples < _EACH:
            return None
        mean = self._power / self._n_samples
        self._power, self._n_samples = 0.0, 0
        return min(0.0, max(SILENCE_DB, 10 * math.log10(mean))) if mean > 0 else SILENCE_DB
