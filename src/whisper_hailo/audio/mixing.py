"""Channels to one, where some of them may cancel each other out."""

from __future__ import annotations

import logging
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.types import FloatArray

logger = logging.getLogger(__name__)

_CANCELLED: Final = 0.1
"""Share of the energy that uncorrelated channels keep when they are averaged; less is left only
where one is the other turned upside down. Two equal channels keep twice that energy, stereo music
with an artificial width about half; L and -L with 3 dB between them keep 0.04."""

_MEMORY: Final = 0.5
"""Weight of the energy so far beside a new block's, so that no single block switches channels."""


class ChannelMixer:
    """Averages the channels of a recording; takes the louder one where they cancel.

    Balanced cables that are plugged in as stereo, and mixes that remove the singer, have L and -L:
    their mean is silence.

    Args:
        label: names the recording in the log.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._energies: NDArray[np.float64] | None = None
        self._mean_energy = 0.0
        self._channel: int | None = None
        self._has_logged = False

    def mix(self, block: FloatArray) -> FloatArray:
        """Return `(n,)` float32 of `(n, n_channels)`."""
        mean: FloatArray = block.mean(axis=1, dtype=np.float32)
        if block.shape[1] == 1:
            return mean
        self._measure(block, mean)
        if self._channel is None:
            return mean
        return np.ascontiguousarray(block[:, self._channel])

    def _measure(self, block: FloatArray, mean: FloatArray) -> None:
        """Update the energies, and with them the channel to take, which is mostly none."""
        energies = np.einsum("ij,ij->j", block, block, dtype=np.float64)
        if self._energies is not None:
            energies += _MEMORY * self._energies
        self._energies = energies
        self._mean_energy = float(mean @ mean) + _MEMORY * self._mean_energy
        n_channels = block.shape[1]
        uncorrelated = energies.sum() / n_channels**2
        if self._mean_energy >= _CANCELLED * uncorrelated:
            self._channel = None
        elif self._channel is None:
            self._channel = int(energies.argmax())
            self._log_once()

    def _log_once(self) -> None:
        if self._has_logged or self._channel is None:
            return
        self._has_logged = True
        logger.debug(
            "%s: its channels cancel each other out; channel %d is transcribed instead of their "
            "mean",
            self._label,
            self._channel + 1,
        )
