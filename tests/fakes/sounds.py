"""Sounds with and without speech, and files of sound, for the audio tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from whisper_hailo.audio import open_audio
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

_BEAT_S: Final = 0.5
_CHORDS: Final = (
    (261.6, 329.6, 392.0),
    (220.0, 261.6, 329.6),
    (174.6, 220.0, 261.6),
    (196.0, 246.9, 293.7),
)
"""Fundamentals in Hz."""


def tone(rate_hz: int, seconds: float = 1.0, hz: float = 440.0) -> NDArray[np.float64]:
    return 0.5 * np.sin(2 * np.pi * hz * np.arange(round(rate_hz * seconds)) / rate_hz)


def write(
    path: Path, samples: NDArray[Any], rate_hz: int = 16_000, **kwargs: str
) -> Path:
    soundfile.write(path, samples, rate_hz, **kwargs)
    return path


def similarity(audio: FloatArray, expected: NDArray[Any]) -> float:
    """Cosine of the common part; 1 is equal up to loudness."""
    n = min(len(audio), len(expected))
    left = audio[:n].astype(float)
    right = expected[:n].astype(float)
    return float(left @ right / np.sqrt((left @ left) * (right @ right)))


def noisy_speech(seconds: float) -> NDArray[np.float64]:
    """Something that compresses badly, so that half a file is about half of the sound."""
    rng = np.random.default_rng(4)
    return np.asarray(0.1 * rng.standard_normal(round(16_000 * seconds)))


def write_media(
    path: Path,
    codec: str,
    rate_hz: int,
    *,
    seconds: float = 3.0,
    layout: str = "stereo",
) -> Path:
    """A tone on all channels, encoded by FFmpeg."""
    av = pytest.importorskip("av", reason="needs the media extra")
    n_channels = len(av.AudioLayout(layout).channels)
    samples = tone(rate_hz, seconds).astype(np.float32).repeat(n_channels)[None]
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "twenty to ten"
        stream = container.add_stream(codec, rate=rate_hz, layout=layout)
        fit = av.AudioResampler(format=stream.format.name, layout=layout, rate=rate_hz)
        for start in range(0, samples.size // n_channels, 1024):
            part = samples[:, start * n_channels : (start + 1024) * n_channels]
            frame = av.AudioFrame.from_ndarray(part, format="flt", layout=layout)
            frame.sample_rate = rate_hz
            frame.pts = start
            container.mux(
                [packet for f in fit.resample(frame) for packet in stream.encode(f)]
            )
        container.mux(stream.encode(None))
    return path


def refusal(source: Any, **kwargs: Any) -> str:
    """The one line that a file is refused with."""
    with pytest.raises(AudioError) as caught, open_audio(source, **kwargs) as stream:
        list(stream.blocks(16_000))
    message = str(caught.value)
    assert "\n" not in message
    return message


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
