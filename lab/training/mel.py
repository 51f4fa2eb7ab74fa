"""Whisper's log-mel on batches in torch, for training; equal to the run-time numpy one."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

SAMPLE_RATE_HZ = 16_000
N_FFT = 400
HOP = 160
FRAMES_PER_S = SAMPLE_RATE_HZ // HOP


def _hz_to_mel(hz: np.ndarray) -> np.ndarray:
    """Slaney's scale: linear to 1 kHz, logarithmic above."""
    above = 15.0 + np.log(np.maximum(hz, 1e-9) / 1000.0) * (27.0 / np.log(6.4))
    return np.asarray(np.where(hz < 1000.0, hz * 3.0 / 200.0, above))


def _mel_to_hz(mel: np.ndarray) -> np.ndarray:
    above = 1000.0 * np.exp((mel - 15.0) * (np.log(6.4) / 27.0))
    return np.asarray(np.where(mel < 15.0, mel * 200.0 / 3.0, above))


def mel_filters(n_mels: int) -> np.ndarray:
    """Returns triangular filters of equal area (Slaney): `(n_mels, N_FFT // 2 + 1)` float64."""
    bins_hz = np.linspace(0.0, SAMPLE_RATE_HZ / 2, N_FFT // 2 + 1)
    limits = _hz_to_mel(np.array([0.0, SAMPLE_RATE_HZ / 2]))
    edges_hz = _mel_to_hz(np.linspace(limits[0], limits[1], n_mels + 2))
    width_hz = np.diff(edges_hz)
    slopes = edges_hz[:, None] - bins_hz[None, :]
    rising = -slopes[:-2] / width_hz[:-1, None]
    falling = slopes[2:] / width_hz[1:, None]
    area = 2.0 / (edges_hz[2:] - edges_hz[:-2])
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)) * area[:, None])


@cache
def _constants(n_mels: int, device: torch.device) -> tuple[Tensor, Tensor]:
    filters = torch.from_numpy(mel_filters(n_mels).astype(np.float32))
    return torch.hann_window(N_FFT, device=device), filters.to(device)


def log_mel(audio: Tensor, n_mels: int = 80) -> Tensor:
    """Computes log-mel spectrograms, each clamped 8 decades below its own maximum.

    Args:
        audio: `(batch, n_samples)` float32, 16 kHz, full scale is 1.
        n_mels: number of mel bins.

    Returns:
        `(batch, n_mels, n_samples // 160)` float32.
    """
    window, filters = _constants(n_mels, audio.device)
    spectrum = torch.stft(audio, N_FFT, HOP, window=window, return_complex=True)[
        ..., :-1
    ]
    mel = torch.log10((filters @ spectrum.abs().square()).clamp(min=1e-10))
    peak = mel.amax(dim=(1, 2), keepdim=True)
    return (torch.maximum(mel, peak - 8.0) + 4.0) / 4.0
