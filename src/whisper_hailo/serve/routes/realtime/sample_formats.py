"""Formats of a realtime client's sound: 16-bit PCM, by default at 24 kHz, and G.711 at 8 kHz."""

from __future__ import annotations

from typing import Final

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.serve.audio import FULL_SCALE, SampleStream

PCM: Final = "audio/pcm"
PCMU: Final = "audio/pcmu"
PCMA: Final = "audio/pcma"

PCM_RATE_HZ: Final = 24_000
G711_RATE_HZ: Final = 8_000


def make_sample_stream(sample_format: str, rate_hz: int) -> SampleStream:
    """Return the decoder of a format at a rate."""
    return SampleStream(rate_hz, table=_TABLES.get(sample_format))


def _mu_law() -> FloatArray:
    """Return `(256,)` float32, the samples of all bytes (ITU-T G.711, table 2a)."""
    code = ~np.arange(256) & 0xFF
    exponent = (code >> 4) & 7
    mantissa = code & 15
    size = (((mantissa << 3) + 132) << exponent) - 132
    return np.where(code & 128, -size, size).astype(np.float32) / FULL_SCALE


def _a_law() -> FloatArray:
    """Return `(256,)` float32, the samples of all bytes (ITU-T G.711, table 1a)."""
    code = np.arange(256) ^ 0x55
    exponent = (code >> 4) & 7
    mantissa = code & 15
    size = np.where(exponent == 0, (mantissa << 4) + 8, (mantissa << 4) + 264)
    size <<= np.maximum(exponent - 1, 0)
    return np.where(code & 128, size, -size).astype(np.float32) / FULL_SCALE


_TABLES: Final = {PCMU: _mu_law(), PCMA: _a_law()}
