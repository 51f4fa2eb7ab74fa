"""A HEF decoder without a cache: what `FixedDecoder` runs, on the chip."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np

from whisper_hailo.backends.hailo.assets import DecoderAssets, load_assets
from whisper_hailo.backends.hailo.lease import Lease
from whisper_hailo.backends.hailo.options import ALONE, ChipOptions
from whisper_hailo.backends.hailo.preflight import check_decoder
from whisper_hailo.backends.hef.contract import HOST
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray


class HefRunner(Closing):
    """The decoder of a HEF on a Hailo chip; the host looks tokens up and joins the logits.

    Args:
        path: the HEF.
        spec: the model that it should be of.
        assets: folder with the host's arrays.
        options: how the chip is used.
        positions: `host` or `chip`, who adds the position rows; `None` goes by the file.

    Raises:
        HefError, ModelError: broken, no decoder, or decoder or arrays of another model.
    """

    def __init__(
        self,
        path: Path,
        spec: ModelSpec,
        assets: Path,
        options: ChipOptions = ALONE,
        *,
        positions: str | None = None,
    ) -> None:
        hef, self._shape = check_decoder(path, spec)
        dims = spec.dims
        self._outputs = self._shape.logits(dims.n_vocab)
        self._sizes = (dims.n_vocab, dims.d_model, self._shape.length)
        self._on_host = (positions or self._shape.positions) == HOST
        self._folder = assets
        self._assets: DecoderAssets | None = None
        self._arch = hef.arch
        self._lease = Lease(hef, self._shape.group, options)

    @property
    def name(self) -> str:
        """Such as `hef-hailo8l`: with the chip that the file is for."""
        return f"hef-{self._arch}"

    @property
    def length(self) -> int:
        """Text positions of the network."""
        return self._shape.length

    @property
    def n_positions(self) -> int:
        """Encoder positions of the network."""
        return self._shape.n_positions

    def open(self) -> Self:
        """Map the arrays, open the chip and load the network.

        Raises:
            DeviceError, HefError, ModelError: each says what to do.
        """
        self._assets = load_assets(self._folder, self._sizes, positions=self._on_host)
        self._lease.open()
        return self

    def close(self) -> None:
        self._lease.close()
        self._assets = None

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        """Run all positions, row by row; see `FixedRunner`.

        Raises:
            DeviceError: a run failed.
        """
        if self._assets is None:
            raise ModelError(f"{self.name} is not open; call open() or use a with block")
        rows = zip(tokens, audio_features, strict=True)
        return np.stack([self._run(self._assets, ids, features) for ids, features in rows])

    def _run(self, assets: DecoderAssets, tokens: IntArray, features: FloatArray) -> FloatArray:
        """`(length,)` ids and `(n_positions, d_model)` features to `(length, n_vocab)`."""
        inputs = {self._shape.features: features, self._shape.embeddings: assets.embed(tokens)}
        chunks = self._lease.run(inputs, self._outputs)
        rows = [chunks[name].reshape(self._shape.length, -1) for name in self._outputs]
        return np.concatenate(rows, axis=1)
