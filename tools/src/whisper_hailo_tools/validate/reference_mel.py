"""Whisper's log-mel spectrogram in float64, written as its formula reads.

It shares nothing with `audio.log_mel`: no blocks, no single precision, filters drawn point by
point. It is slow, and meant to be read.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.types import FloatArray

_RATE_HZ = 16_000
_N_FFT = 400
_HOP = 160


def reference_mel(audio: FloatArray, n_mels: int) -> NDArray[np.float64]:
    """Return the log-mel `(n_mels, n_samples // 160)` of samples `(n_samples,)` at 16 kHz."""
    window = np.array(
        [math.sin(math.pi * sample / _N_FFT) ** 2 for sample in range(_N_FFT)]
    )
    padded = np.pad(audio.astype(np.float64), _N_FFT // 2, mode="reflect")
    n_frames = audio.size // _HOP
    power = np.empty((n_frames, _N_FFT // 2 + 1))
    for frame in range(n_frames):
        samples = padded[frame * _HOP : frame * _HOP + _N_FFT]
        power[frame] = np.abs(np.fft.rfft(samples * window)) ** 2
    mel = power @ _filters(n_mels)
    logarithms = np.log10(np.maximum(mel, 1e-10)).T
    clipped: NDArray[np.float64] = np.maximum(logarithms, logarithms.max() - 8)
    return (clipped + 4) / 4


def _filters(n_mels: int) -> NDArray[np.float64]:
    """Return triangles of area 1 `(201, n_mels)`, evenly spaced in mel from 0 to 8 kHz."""
    top = _to_mel(_RATE_HZ / 2)
    corners = [_to_hz(top * corner / (n_mels + 1)) for corner in range(n_mels + 2)]
    filters = np.zeros((_N_FFT // 2 + 1, n_mels))
    for row in range(filters.shape[0]):
        hz = row * _RATE_HZ / _N_FFT
        for column in range(n_mels):
            low, centre, high = corners[column : column + 3]
            height = 2 / (high - low)
            rising = (hz - low) / (centre - low)
            falling = (high - hz) / (high - centre)
            filters[row, column] = max(0.0, min(rising, falling)) * height
    return filters


def _to_mel(hz: float) -> float:
    """Return Slaney's mel: linear below 1 kHz, then 27 steps for each factor of 6.4."""
    if hz < 1000:
        return 3 * hz / 200
    return 15 + 27 * math.log(hz / 1000) / math.log(6.4)


def _to_hz(mel: float) -> float:
    if mel < 15:
        return 200 * mel / 3
    return 1000 * math.exp((mel - 15) * math.log(6.4) / 27)
