"""An encoder that is watched."""

from __future__ import annotations

from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray


class RecordingEncoder(Closing):
    """An encoder that notes what it is given."""

    def __init__(self, encoder: object, n_frames: int | None = None) -> None:
        self._encoder = encoder
        self.n_frames = n_frames
        self.shapes: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._encoder, name)

    def encode(self, mel: FloatArray) -> FloatArray:
        self.shapes.append(mel.shape)
        features: FloatArray = self._encoder.encode(mel)  # type: ignore[attr-defined]
        return features
