"""A random toy checkpoint, its model directory with Hailo forms, and a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.checkpoints import write_checkpoint
from tests.shared import converted
from whisper_hailo.convert.options import ConvertOptions, HailoOptions

WINDOW_S = 2
LENGTH = 9


@pytest.fixture(scope="session")
def toy_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("validate") / "toy")


@pytest.fixture(scope="session")
def toy_model(shared: Path, toy_checkpoint: Path) -> Path:
    sizes = HailoOptions(window_s=WINDOW_S, decoder_length=LENGTH)
    return converted(shared, toy_checkpoint, ConvertOptions("none", hailo=sizes))


@pytest.fixture(scope="session")
def int8_model(shared: Path, toy_checkpoint: Path) -> Path:
    """All of it: 8 bits in encoder and decoder, and the Hailo forms."""
    sizes = HailoOptions(window_s=WINDOW_S, decoder_length=LENGTH)
    return converted(
        shared, toy_checkpoint, ConvertOptions("int8", "int8", hailo=sizes)
    )


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise that swells, which a random model cannot tell from speech."""
    folder = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(3)
    for number in range(2):
        noise = rng.standard_normal(40_000) * np.linspace(0.01, 0.2, 40_000)
        soundfile.write(folder / f"{number}.wav", noise, 16_000)
    return folder
