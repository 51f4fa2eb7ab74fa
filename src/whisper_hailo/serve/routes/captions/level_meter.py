"""The level of a stream."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

SILENCE_DB: Final = -90.0
"""The lowest level reported: one step of 16 bits."""

_READING_SAMPLES: Final = SAMPLE_RATE_HZ // 8


class LevelMeter:
    """Reads the level of a stream some eight times a second of it."""

    def __init__(self) -> None:
        self._power = 0.0
        self._n_samples = 0

    def level_db(self, audio: FloatArray) -> float | None:
        """Return the root mean square in dB below full scale since the last reading, if it is due.

        `audio` is `(n_samples,)` at 16 kHz.
        """
        self._power += float(np.dot(audio, audio))
        self._n_samples += audio.size
        if self._n_samples < _READING_SAMPLES:
            return None
        mean = self._power / self._n_samples
        self._power = 0.0
        self._n_samples = 0
        if mean <= 0:
            return SILENCE_DB
        return min(0.0, max(SILENCE_DB, 10 * math.log10(mean)))
