"""A recording of two people, and the models that tell them apart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import DEMO, ROOT
from whisper_hailo.audio import load_audio
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.speakers.models import EMBEDDING, FOLDER_VARIABLE, SEGMENTATION

MODELS: Final = Path(
    os.environ.get(FOLDER_VARIABLE) or ROOT.parent / "shared" / "speakers"
)
SWITCHES_S: Final = (5.0, 11.0, 17.0)
"""Where the other person of the talk takes over."""

needs_models = pytest.mark.skipif(
    not (MODELS / SEGMENTATION.names[0]).is_file()
    or not (MODELS / EMBEDDING.names[0]).is_file(),
    reason=f"no speaker models: name their folder in {FOLDER_VARIABLE}",
)


def write_talk(path: Path) -> Path:
    """Write a recording in which two people speak in turns; return its path."""
    first = load_audio(ASSETS / "jfk.flac")
    second = load_audio(DEMO)
    cut = round(SWITCHES_S[0] * SAMPLE_RATE_HZ)
    pause = round((SWITCHES_S[1] - SWITCHES_S[0]) * SAMPLE_RATE_HZ)
    audio = np.concatenate([first[:cut], second[:pause], first[cut:], second[pause:]])
    soundfile.write(path, audio, SAMPLE_RATE_HZ)
    return path
