"""All of the sound that a source gives."""

from __future__ import annotations

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.sources.source import AudioSource


def heard(source: AudioSource) -> FloatArray:
    with source:
        return np.concatenate([block.audio for block in source.blocks()])
