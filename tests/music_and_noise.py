"""Sounds in which nobody speaks: music, and noise of several colours."""

from __future__ import annotations

from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

_BEAT_S: Final = 0.5
_CHORDS: Final = (
    (261.6, 329.6, 392.0),
    (220.0, 261.6, 329.6),
    (174.6, 220.0, 261.6),
    (196.0, 246.9, 293.7),
)
"""Fundamentals in Hz."""


def music(seconds: float, seed: int = 0) -> FloatArray:
    """Return four chords of decaying harmonics in turn, a drum on every beat, a hat between."""
    rng = np.random.default_rng(seed)
    n_beat = round(_BEAT_S * SAMPLE_RATE_HZ)
    t = np.arange(n_beat) / SAMPLE_RATE_HZ
    drum = np.sin(2 * np.pi * 60 * t * np.exp(-8 * t)) * np.exp(-12 * t)
    hat = rng.standard_normal(n_beat) * np.exp(-60 * t)
    beats = []
    for beat in range(int(np.ceil(seconds / _BEAT_S))):
        notes = [(hz, k) for hz in _CHORDS[beat // 4 % 4] for k in (1, 2, 3, 4)]
        chord = sum(np.sin(2 * np.pi * hz * k * t) / k for hz, k in notes)
        beats.append(
            0.12 * chord * np.exp(-1.5 * t)
            + 0.5 * drum
            + 0.1 * np.roll(hat, n_beat // 2)
        )
    samples = np.concatenate(beats)[: round(seconds * SAMPLE_RATE_HZ)]
    return np.clip(samples, -1, 1).astype(np.float32)


def noise(seconds: float, colour: float = 0.0, seed: int = 0) -> FloatArray:
    """Return noise whose power falls by frequency to this power: 0 is white, 2 brown."""
    rng = np.random.default_rng(seed)
    n = round(seconds * SAMPLE_RATE_HZ)
    spectrum = np.fft.rfft(rng.standard_normal(n))
    spectrum[1:] /= np.arange(1, spectrum.size) ** (colour / 2)
    spectrum[0] = 0
    samples = np.fft.irfft(spectrum, n)
    quiet: FloatArray = (0.2 * samples / np.abs(samples).max()).astype(np.float32)
    return quiet
