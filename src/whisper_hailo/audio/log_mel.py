"""Whisper's log-mel spectrogram in NumPy, for run time, calibration, training and benchmarks.

The formula is that of `log_mel_spectrogram` in OpenAI's Whisper (Radford et al., 2022); the filters
are computed from their definition in Slaney's Auditory Toolbox (1998), as in `librosa.filters.mel`.

`log_mel` gives one frame per whole 160 samples. To pad a window, pad the *audio* with zeros, by
`pad_or_trim`: padding the mel would change the maximum, and so every value.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.types import FRAMES_PER_SECOND, SAMPLE_RATE_HZ, FloatArray

N_FFT = 400
"""Samples per analysis frame (25 ms)."""

HOP_LENGTH = SAMPLE_RATE_HZ // FRAMES_PER_SECOND
"""Samples from one frame to the next (160, 10 ms)."""

_BLOCK_FRAMES = 32
"""A block is small enough for the C library not to ask the system for memory (`core/process.py`):
with 128, the mel of four seconds took 10.2 ms of a server's processor instead of 5.7."""

_POWER_FLOOR = 1e-10
"""Smallest power, whose logarithm is taken for silence."""

_DYNAMIC_RANGE = 8.0
"""In decades: what lies further below the loudest value is raised to it."""

_MEL_BREAK_HZ = 1000.0
_MEL_LINEAR_HZ = 200.0 / 3.0
_MEL_LOG_STEP = np.log(6.4) / 27.0
"""Slaney's mel scale: linear below 1 kHz, logarithmic above, 27 steps from 1 to 6.4 kHz."""


@cache
def mel_filters(n_mels: int) -> NDArray[np.float64]:
    """Return triangular mel filters from 0 to 8 kHz, each of unit area per Hz (Slaney's norm).

    `(n_mels, 201)` float64, read-only; Whisper has 80 (up to large-v2) or 128 (large-v3 and turbo).
    """
    if n_mels < 1:
        raise ShapeError(
            f"{n_mels} mel bins requested; give 80 or 128, as the model's config says"
        )
    nyquist_hz = SAMPLE_RATE_HZ / 2
    break_mel = _MEL_BREAK_HZ / _MEL_LINEAR_HZ
    top_mel = break_mel + np.log(nyquist_hz / _MEL_BREAK_HZ) / _MEL_LOG_STEP
    mels = np.linspace(0.0, top_mel, n_mels + 2)
    linear_hz = _MEL_LINEAR_HZ * mels
    logarithmic_hz = _MEL_BREAK_HZ * np.exp(_MEL_LOG_STEP * (mels - break_mel))
    corners_hz = np.where(mels < break_mel, linear_hz, logarithmic_hz)
    freqs_hz = np.linspace(0.0, nyquist_hz, N_FFT // 2 + 1)
    low = corners_hz[:-2, None]
    centre = corners_hz[1:-1, None]
    high = corners_hz[2:, None]
    rising = (freqs_hz - low) / (centre - low)
    falling = (high - freqs_hz) / (high - centre)
    triangles = np.minimum(rising, falling)
    filters: NDArray[np.float64] = np.maximum(0.0, triangles)
    filters *= 2.0 / (high - low)
    filters.flags.writeable = False
    return filters


@cache
def _hann_window() -> NDArray[np.float64]:
    """Return the periodic Hann window `(n_fft,)`: its last value is not 0."""
    phase = 2.0 * np.pi * np.arange(N_FFT) / N_FFT
    return 0.5 - 0.5 * np.cos(phase)


def log_mel(audio: FloatArray, n_mels: int = 80) -> FloatArray:
    """Return Whisper's log-mel spectrogram.

    25 ms frames every 10 ms, centred (the ends are reflected), periodic Hann window, power
    spectrum, mel filters, log10 with a floor at 1e-10 and at 8 decades below the largest value of
    the whole input, then `(x + 4) / 4`. The Fourier transform is double: next to a tone, single
    precision keeps three digits of what lies eight decades below. Its powers are all positive, so
    from there on single precision is enough and twice as fast.

    Audio is `(n_samples,)` float32 mono at 16 kHz, finite, nominally in [-1, 1] but not clipped.
    Below 201 samples, too few to reflect, zeros follow. The result is `(n_mels, n_frames)` float32,
    C-contiguous, with `n_frames = n_samples // 160` and 80 or 128 mel bins.
    """
    if audio.ndim != 1 or not np.issubdtype(audio.dtype, np.floating):
        raise ShapeError(
            f"audio has shape {audio.shape} and dtype {audio.dtype}, expected (n_samples,) "
            "float32; average the channels, divide 16-bit samples by 32768"
        )
    filters = mel_filters(n_mels).T.astype(np.float32)
    n_frames = audio.shape[0] // HOP_LENGTH
    if n_frames == 0:
        return np.zeros((n_mels, 0), dtype=np.float32)
    if audio.shape[0] <= N_FFT // 2:
        audio = pad_or_trim(audio, N_FFT)
    padded = np.pad(audio, N_FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::HOP_LENGTH]
    mel = np.empty((n_frames, n_mels), dtype=np.float32)
    window = _hann_window()
    for start in range(0, n_frames, _BLOCK_FRAMES):
        end = min(start + _BLOCK_FRAMES, n_frames)  # Whisper drops the last of `frames`
        block = slice(start, end)
        spectrum = np.fft.rfft(frames[block] * window)
        squares = spectrum.view(np.float64)  # real and imaginary parts in turn
        squares *= squares
        real = squares[:, ::2]
        imaginary = squares[:, 1::2]
        power = np.add(real, imaginary, dtype=np.float32)
        np.matmul(power, filters, out=mel[block])
    np.maximum(mel, _POWER_FLOOR, out=mel)
    np.log10(mel, out=mel)
    floor = mel.max() - _DYNAMIC_RANGE
    np.maximum(mel, floor, out=mel)
    mel += 4.0
    mel /= 4.0
    return np.ascontiguousarray(mel.T)


def pad_or_trim(audio: FloatArray, n_samples: int) -> FloatArray:
    """Return audio of exactly `n_samples`: cut at the end, or with zeros appended.

    `(n_samples,)` float32; a view of `audio` when nothing is appended.
    """
    n_missing = n_samples - audio.shape[0]
    if n_missing > 0:
        return np.pad(audio, (0, n_missing))
    return audio[:n_samples]
