"""The bundled model with Hailo forms of a short window, and recordings to calibrate with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.shared import converted
from tests.unit.conftest import skip_fsync  # noqa: F401 - for these, too
from whisper_hailo.convert.options import ConvertOptions, HailoOptions

ROOT = Path(__file__).parents[3]
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
RATE_HZ = 16_000


@pytest.fixture(scope="session")
def micro(shared: Path) -> Path:
    return converted(shared, MICRO, ConvertOptions("none", hailo=HailoOptions(2, 16)))


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three speakers in LibriSpeech's layout, one file of each a little longer than the last."""
    folder = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(7)
    for speaker in (61, 121, 237):
        for number in range(3):
            path = folder / "dev" / str(speaker) / "9" / f"{speaker}-9-{number:04d}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = rng.standard_normal(RATE_HZ * (2 + number)) * 0.05
            soundfile.write(path, noise, RATE_HZ)
    return folder
