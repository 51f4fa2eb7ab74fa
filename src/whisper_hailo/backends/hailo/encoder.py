"""A HEF encoder behind the `Encoder` protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np

from whisper_hailo.backends.checks import check_mel
from whisper_hailo.backends.hailo.lease import Lease
from whisper_hailo.backends.hailo.options import ALONE, ChipOptions
from whisper_hailo.backends.hailo.preflight import check_encoder
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND, FloatArray


class HefEncoder(Closing):
    """The encoder of a HEF on a Hailo chip; one fixed window. Several threads may use it at once.

    Args:
        path: the HEF.
        spec: the model that it should be of.
        options: how the chip is used.

    Raises:
        HefError: broken, no encoder, or one of another model.
    """

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
        """Such as `hef-hailo8l`."""
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
        """Open the chip and load the network.

        Raises:
            DeviceError, HefError: each says what to do.
        """
        self._lease.open()
        return self

    def close(self) -> None:
        """Give the network back."""
        self._lease.close()

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode log-mel windows, one run each.

        Args:
            mel: `(batch, n_mels, n_frames)` float32, of the network's own number of frames.

        Returns:
            audio features `(batch, n_frames / 2, d_model)` float32.

        Raises:
            ShapeError: another number of frames.
            DeviceError: the run failed.
        """
        check_mel(mel, self._spec)
        if mel.shape[2] != self.n_frames:
            window_s = self.n_frames / FRAMES_PER_SECOND
            raise ShapeError(
                f"mel has {mel.shape[2]} frames, this encoder takes {self.n_frames} "
                f"({window_s:g} s window); use --window {window_s:g}"
            )
        return np.stack([self._encode(row) for row in mel])

    def _encode(self, mel: FloatArray) -> FloatArray:
        """`(n_mels, n_frames)` to `(n_positions, d_model)`; the chip wants channels last."""
        channels_last = mel.T.astype(np.float32, copy=False)
        features = self._lease.run({self._shape.input: channels_last}, (self._shape.output,))
        return features[self._shape.output].reshape(self._shape.n_positions, self._shape.d_model)
