"""Sounds, and files of sound, for the audio tests."""

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from whisper_hailo.core.types import FloatArray

DATA = Path(__file__).parents[1] / "data"


def tone(rate_hz: int, seconds: float = 1.0, hz: float = 440.0) -> NDArray[np.float64]:
    return 0.5 * np.sin(2 * np.pi * hz * np.arange(round(rate_hz * seconds)) / rate_hz)


def write(path: Path, samples: NDArray[Any], rate_hz: int = 16_000, **kwargs: str) -> Path:
    soundfile.write(path, samples, rate_hz, **kwargs)
    return path


def similarity(audio: FloatArray, expected: NDArray[Any]) -> float:
    """Cosine of the common part; 1 is equal up to loudness."""
    n = min(len(audio), len(expected))
    left, right = audio[:n].astype(float), expected[:n].astype(float)
    return float(left @ right / np.sqrt((left @ left) * (right @ right)))


def noisy_speech(seconds: float) -> NDArray[np.float64]:
    """Something that compresses badly, so that half a file is about half of the sound."""
    rng = np.random.default_rng(4)
    return np.asarray(0.1 * rng.standard_normal(round(16_000 * seconds)))
