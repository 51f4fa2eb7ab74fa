"""A HEF encoder behind the `Encoder` protocol."""

from __future__ import annotations

from collections import deque
from itertools import islice
from pathlib import Path
from typing import Final, Self

import numpy as np

from whisper_hailo.backends.checks import check_frames, check_mel
from whisper_hailo.backends.hailo.lease import Lease, LeasedRun
from whisper_hailo.backends.hailo.options import ALONE, ChipOptions
from whisper_hailo.backends.hef.contract import EncoderShape, check_encoder
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray

_AT_ONCE: Final = 2
"""Runs of one stream in the chip's queue: while one is computed the next one's mel is there."""


class HefEncoder(Closing):
    """The encoder of a HEF on a Hailo chip, of one fixed window; threads may share it."""

    def __init__(self, path: Path, spec: ModelSpec, options: ChipOptions = ALONE) -> None:
        hef, self._shape = check_encoder(path, spec)
        self._spec = spec
        self._arch = hef.arch
        self._lease = Lease(hef, self._shape.group, options)

    @property
    def spec(self) -> ModelSpec:
        """The model that this encoder belongs to."""
        return self._spec

    @property
    def name(self) -> str:
        """Such as `hef-hailo8l`: with the chip that the file is for."""
        return f"hef-{self._arch}"

    @property
    def n_frames(self) -> int:
        """The one number of log-mel frames that it takes."""
        return self._shape.n_frames

    @property
    def temperature_c(self) -> float | None:
        """Degrees Celsius of the chip, if it says so; the encoder must be open."""
        return self._lease.chip.temperature_c()

    def open(self) -> Self:
        """Open the chip and load the network."""
        self._lease.open()
        return self

    def close(self) -> None:
        self._lease.close()

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode log-mel windows, one run each.

        Args:
            mel: `(batch, n_mels, n_frames)` float32, of the network's own number of frames.

        Returns:
            audio features `(batch, n_frames / 2, d_model)` float32.
        """
        return self.encode_async(mel).result()

    def encode_async(self, mel: FloatArray) -> HefEncoding:
        """Hand log-mel windows to the chip; the result waits for them, and tells of failures."""
        check_mel(mel, self._spec)
        check_frames(mel.shape[2], self.n_frames)
        return HefEncoding(self._lease, self._shape, mel)


class HefEncoding:
    """Windows on their way through the chip, a few at a time so that it never waits for the host.

    Args:
        mel: `(batch, n_mels, n_frames)` float32.
    """

    def __init__(self, lease: Lease, shape: EncoderShape, mel: FloatArray) -> None:
        self._lease = lease
        self._shape = shape
        self._rows = iter(mel)
        self._runs = deque(self._begin(row) for row in islice(self._rows, _AT_ONCE))
        self.took_ms = 0.0

    def result(self) -> FloatArray:
        """Wait for `(batch, n_positions, d_model)` float32. To be called once."""
        features, output = [], self._shape.output
        while self._runs:
            run = self._runs.popleft()
            features.append(run.result()[output])
            self.took_ms += run.took_ms
            self._runs.extend(self._begin(row) for row in islice(self._rows, 1))
        shape = (len(features), self._shape.n_positions, self._shape.d_model)
        return np.stack(features).reshape(shape)

    def _begin(self, mel: FloatArray) -> LeasedRun:
        """Hand over one window `(n_mels, n_frames)`; the chip wants channels last."""
        channels_last = np.asarray(mel.T, np.float32)
        return self._lease.run_async({self._shape.input: channels_last}, (self._shape.output,))
