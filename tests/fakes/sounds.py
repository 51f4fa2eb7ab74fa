"""Sounds, and files of sound, for the audio tests."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from whisper_hailo.audio import open_audio
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import FloatArray

DATA = Path(__file__).parents[1] / "data"


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
