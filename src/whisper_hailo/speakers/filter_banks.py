"""Kaldi's log mel filter banks in NumPy, as speaker models take them.

The values are those of `torchaudio.compliance.kaldi.fbank` and of kaldi-native-fbank with 80 bins,
without dither. The formulas are those of Kaldi's `feature-window` and `mel-computations`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

N_BINS: Final = 80
FRAME_SAMPLES: Final = 400
"""25 ms."""
HOP_SAMPLES: Final = 160
"""10 ms."""

_N_FFT: Final = 512
_LOWEST_HZ: Final = 20.0
_PREEMPHASIS: Final = 0.97
_FLOOR: Final = float(np.finfo(np.float32).eps)
"""Kaldi's floor, so that digital silence has a logarithm."""

_BLOCK_FRAMES: Final = 256
"""Frames transformed at a time: 1 MiB of spectra, however long the audio is."""


def n_filter_bank_frames(n_samples: int) -> int:
    """Return the number of whole frames in so many samples."""
    return max(0, (n_samples - FRAME_SAMPLES) // HOP_SAMPLES + 1)


def log_filter_banks(audio: FloatArray) -> FloatArray:
    """Return the log filter banks of `(n_samples,)` float32 at 16 kHz in [-1, 1].

    The result is `(n_frames, 80)` float32, a frame per 10 ms, only frames that lie wholly within
    the audio. The mean is not subtracted.
    """
    n_frames = n_filter_bank_frames(audio.size)
    banks = np.empty((n_frames, N_BINS), np.float32)
    if not n_frames:
        return banks
    windows = np.lib.stride_tricks.sliding_window_view(audio, FRAME_SAMPLES)[
        ::HOP_SAMPLES
    ]
    filters = mel_filters()
    for start in range(0, n_frames, _BLOCK_FRAMES):
        frames = windows[start : start + _BLOCK_FRAMES].astype(np.float64)
        frames -= frames.mean(axis=1, keepdims=True)
        # Kaldi takes the first sample as its own predecessor.
        previous = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
        frames -= _PREEMPHASIS * previous
        frames *= _povey_window()
        spectra = np.fft.rfft(frames, _N_FFT)[:, :-1]
        power = spectra.real**2 + spectra.imag**2
        energies = power @ filters
        np.log(np.maximum(energies, _FLOOR), out=energies)
        banks[start : start + _BLOCK_FRAMES] = energies
    return banks


@cache
def mel_filters() -> NDArray[np.float64]:
    """Return `(256, 80)` triangles on the mel scale, 20 Hz to 8 kHz; Nyquist's bin is unused."""
    corners = np.linspace(_to_mel(_LOWEST_HZ), _to_mel(SAMPLE_RATE_HZ / 2), N_BINS + 2)
    mels = _to_mel(np.arange(_N_FFT // 2) * SAMPLE_RATE_HZ / _N_FFT)[:, np.newaxis]
    low = corners[:-2]
    centre = corners[1:-1]
    high = corners[2:]
    rising = (mels - low) / (centre - low)
    falling = (high - mels) / (high - centre)
    filters: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
    filters.flags.writeable = False
    return filters


@cache
def _povey_window() -> NDArray[np.float64]:
    """Return Kaldi's default window `(400,)`: a symmetric Hann window to the power of 0.85."""
    angles = 2 * np.pi * np.arange(FRAME_SAMPLES) / (FRAME_SAMPLES - 1)
    window: NDArray[np.float64] = (0.5 - 0.5 * np.cos(angles)) ** 0.85
    return window


def _to_mel(hertz: float | NDArray[np.float64]) -> NDArray[np.float64]:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)
