"""Voice prints of short stretches of speech, by 3D-Speaker's CAM++."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.types import FloatArray
from whisper_hailo.speakers.graph import SpeakerGraph

PRINT_SIZE: Final = 192


class VoicePrintModel(SpeakerGraph):
    """The graph of the model that tells voices apart."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        super().__init__(path, threads, "voice prints")

    def voice_print(self, banks: FloatArray) -> FloatArray:
        """Return the voice print `(192,)` of length 1.

        Args:
            banks: `(n_frames, 80)` log filter banks of one voice, at least one frame; they need not
                follow each other.

        Raises:
            ModelError: the file holds another model.
        """
        centred = banks - banks.mean(axis=0)
        prints = self.run(centred[np.newaxis])
        if prints.shape != (1, PRINT_SIZE):
            raise ModelError(
                f"{display_path(self.path)} gives prints of shape {prints.shape}, expected "
                f"(1, {PRINT_SIZE}) of 3D-Speaker's CAM++; {self.advice}"
            )
        return normalize(prints[0])


def normalize(prints: FloatArray) -> FloatArray:
    """Return vectors `(..., size)` of length 1; one of zeros stays."""
    lengths = np.linalg.norm(prints, axis=-1, keepdims=True)
    unit: FloatArray = prints / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit
