"""Encoders that stand before another one and change what it gives or how often it is asked."""

from __future__ import annotations

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.protocols import Encoder
from whisper_hailo.core.spec import ModelSpec


class EncoderAround(Closing):
    """What such an encoder has in common with the real one; a subclass adds `encode`.

    Args:
        encoder: the real one; opened and closed by its owner.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def spec(self) -> ModelSpec:
        """The model that it belongs to."""
        return self._encoder.spec

    @property
    def name(self) -> str:
        """Of the real one."""
        return self._encoder.name

    @property
    def n_frames(self) -> int | None:
        """Of the real one."""
        return self._encoder.n_frames

    def close(self) -> None:
        """Nothing of its own."""
