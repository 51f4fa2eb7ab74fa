"""All of the sound that a source gives."""

from __future__ import annotations

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.sources.source import LiveSource


def heard(source: LiveSource) -> FloatArray:
    with source:
        return np.concatenate([block.audio for block in source.blocks()])
