"""Speakers who have a channel each: which of them is heard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.audio import AudioStream, open_audio
from whisper_hailo.audio.channels import split_channels
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.types import FloatArray

Voices: TypeAlias = NDArray[np.int8]
"""`(n_samples,)`: the channel that is loudest, for each sample."""

_SMOOTHING: Final = 0.4
"""Of loudness from piece to piece: who is quiet between two sounds still has the turn."""


class LoudestChannel:
    """Follows which channel is loudest."""

    def __init__(self) -> None:
        self._power: NDArray[np.float64] | None = None

    def of(self, piece: FloatArray) -> int:
        """The loudest channel by the end of a piece.

        Args:
            piece: `(n_samples, n_channels)`, following the one before.
        """
        power = np.mean(piece.astype(np.float64) ** 2, axis=0)
        before = power if self._power is None else self._power
        self._power = _SMOOTHING * before + (1 - _SMOOTHING) * power
        return int(np.argmax(self._power))


class SplitStream(Closing):
    """A recording, mixed, with the channel that is loudest in each piece.

    Args:
        path: of the recording.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._stack = ExitStack()
        self._streams: list[AudioStream] = []

    def open(self) -> Self:
        """Open it, once for each channel.

        Raises:
            AudioError: it is none that can be heard, or has one channel only.
        """
        channels = self._stack.enter_context(split_channels(self._path))
        self._streams = [self._stack.enter_context(open_audio(channel)) for channel in channels]
        return self

    def close(self) -> None:
        self._stack.close()

    def blocks(self, n_samples: int) -> Iterator[tuple[FloatArray, Voices]]:
        """Pieces of the mean of all channels, and who is heard in them."""
        loudest = LoudestChannel()
        for channels in zip(*(stream.blocks(n_samples) for stream in self._streams), strict=True):
            piece = np.stack(channels, axis=1)
            yield piece.mean(axis=1, dtype=np.float32), voices(loudest.of(piece), piece.shape[0])


def voices(channel: int, n_samples: int) -> Voices:
    """One channel for so many samples."""
    return np.full(n_samples, channel, np.int8)
