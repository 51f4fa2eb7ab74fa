"""Sound as the realtime door's clients send it."""

from __future__ import annotations

from typing import Final

import numpy as np

from whisper_hailo.audio.resampler import Resampler
from whisper_hailo.core.types import FloatArray

PCM, PCMU, PCMA = "audio/pcm", "audio/pcmu", "audio/pcma"

_RATE_HZ: Final = {PCM: 24_000, PCMU: 8_000, PCMA: 8_000}
_FULL: Final = np.float32(1 / 32_768)


class Sound:
    """A stream of one format, piece by piece.

    Args:
        kind: 16-bit little-endian samples at 24 kHz, or a law of G.711 at 8 kHz; mono.
    """

    def __init__(self, kind: str) -> None:
        self._table = _TABLES.get(kind)
        self._width = 1 if self._table is not None else 2
        self._rate_hz = _RATE_HZ[kind]
        self._resampler = Resampler(self._rate_hz)
        self._rest = b""

    def push(self, raw: bytes) -> FloatArray:
        """`(n_samples,)` at 16 kHz of a piece; half a sample at its end goes with the next."""
        raw = self._rest + raw
        n_whole = len(raw) // self._width * self._width
        self._rest = raw[n_whole:]
        if self._table is not None:
            samples = self._table[np.frombuffer(raw, np.uint8)]
        else:
            samples = np.frombuffer(raw[:n_whole], "<i2").astype(np.float32) * _FULL
        return self._resampler.push(samples)

    def finish(self) -> FloatArray:
        """What the resampler keeps back at the end."""
        return self._resampler.finish()

    def seconds(self, n_bytes: int) -> float:
        """How long so much sounds."""
        return n_bytes / (self._width * self._rate_hz)


def _mu_law() -> FloatArray:
    """Samples of all bytes.

    Source: ITU-T G.711, table 2a.
    """
    code = ~np.arange(256) & 0xFF
    size = ((((code & 15) << 3) + 132) << ((code >> 4) & 7)) - 132
    return np.where(code & 128, -size, size).astype(np.float32) * _FULL


def _a_law() -> FloatArray:
    """Likewise.

    Source: ITU-T G.711, table 1a.
    """
    code = np.arange(256) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, code & 15
    size = np.where(exponent == 0, (mantissa << 4) + 8, (mantissa << 4) + 264)
    size <<= np.maximum(exponent - 1, 0)
    return np.where(code & 128, size, -size).astype(np.float32) * _FULL


_TABLES: Final = {PCMU: _mu_law(), PCMA: _a_law()}
