"""The encoder and the decoder of HEFs, behind the protocols."""

from __future__ import annotations

from collections import deque
from itertools import islice
from pathlib import Path
from typing import Final, Self

import numpy as np

from whisper_hailo.backends.checks import check_mel
from whisper_hailo.backends.hailo.binding import one_line
from whisper_hailo.backends.hailo.chip import Lease, LeasedRun
from whisper_hailo.backends.hailo.hef_contract import (
    HOST,
    EncoderShape,
    check_decoder,
    check_encoder,
)
from whisper_hailo.backends.hailo.hef_file import HefFile
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray

_AT_ONCE: Final = 2
"""Runs of one stream in the chip's queue: while one is computed the next one's mel is there."""


class _HefPart(Closing):
    """A network of a HEF, with a lease on the chip."""

    def __init__(self, hef: HefFile, group: str, options: ChipOptions) -> None:
        self.name = f"hef-{hef.arch}"
        self.lease = Lease(hef, group, options)

    def open(self) -> Self:
        self.lease.open()
        return self

    def close(self) -> None:
        self.lease.close()


class HefEncoder(_HefPart):
    """The encoder of a HEF on a Hailo chip, of one fixed window; threads may share it.

    Attributes:
        bias: `(d_model,)` that is taken away from all features; `None` leaves them alone.
    """

    bias: FloatArray | None = None

    def __init__(
        self, path: Path, spec: ModelSpec, options: ChipOptions = ALONE
    ) -> None:
        hef, self.shape = check_encoder(path, spec)
        super().__init__(hef, self.shape.group, options)
        self.path = path
        self.spec = spec
        self.n_frames = self.shape.n_frames

    @property
    def temperature_c(self) -> float | None:
        """The chip's temperature, `None` if it has no sensor."""
        return self.lease.chip.temperature_c()

    def encode(self, mel: FloatArray) -> FloatArray:
        return self.encode_async(mel).result()

    def encode_async(self, mel: FloatArray) -> HefEncoding:
        """Hand log-mel windows to the chip; the result waits for them, and raises their errors."""
        check_mel(mel, self.spec, self.n_frames)
        return HefEncoding(self.lease, self.shape, mel, self.bias)


class HefEncoding:
    """Windows `(batch, n_mels, n_frames)` on their way through the chip, a few at a time."""

    def __init__(
        self,
        lease: Lease,
        shape: EncoderShape,
        mel: FloatArray,
        bias: FloatArray | None = None,
    ) -> None:
        self.lease = lease
        self._shape = shape
        self._bias = bias
        self._rows = iter(mel)
        self._runs = deque(self._begin(row) for row in islice(self._rows, _AT_ONCE))
        self.took_ms = 0.0

    def result(self) -> FloatArray:
        """Wait for `(batch, n_positions, d_model)` float32. To be called once."""
        features = []
        while self._runs:
            run = self._runs.popleft()
            outputs = run.result()
            features.append(outputs[self._shape.output])
            self.took_ms += run.took_ms
            row = next(self._rows, None)
            if row is not None:
                self._runs.append(self._begin(row))
        shape = (len(features), self._shape.n_positions, self._shape.d_model)
        stacked = np.stack(features).reshape(shape)
        return stacked if self._bias is None else stacked - self._bias

    def _begin(self, mel: FloatArray) -> LeasedRun:
        """Hand over one window `(n_mels, n_frames)`; the chip takes channels last."""
        channels_last = np.asarray(mel.T, np.float32)
        return self.lease.run_async(
            {self._shape.input: channels_last}, (self._shape.output,)
        )


_EMBEDDING = "token_embedding_weight_"
_POSITIONS = "onnx_add_input_"
"""Beginnings of the arrays' file names, as the vendor has them."""

_FOLDER = "decoder_tokenization"


def load_assets(
    directory: Path, sizes: tuple[int, int, int], *, positions: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Load the decoder's arrays from `decoder_assets`, one of its folders, or a folder that has it.

    `sizes` are `n_vocab`, `d_model` and the decoder's length; `positions`: the host adds the
    position rows.

    Returns:
        the token embedding `(n_vocab, d_model)` float32, mapped from its file, so that only rows
        that are looked up take memory; and the position rows `(length, d_model)` float32, `None`
        where the chip adds them.

    Raises:
        ModelError: no arrays, those of several models, or of another one.
    """
    n_vocab, d_model, length = sizes
    folder = _find_folder(directory)
    embedding = _load_table(_find_file(folder, _EMBEDDING, length), (n_vocab, d_model))
    if not positions:
        return embedding, None
    rows = _load_table(_find_file(folder, _POSITIONS, length), (length, d_model))
    return embedding, np.array(rows, dtype=np.float32)


def _find_folder(directory: Path) -> Path:
    """Return the folder with the arrays, at or below the one that was named."""
    for below in ("", f"{_FOLDER}/", f"*/{_FOLDER}/", f"decoder_assets/*/{_FOLDER}/"):
        files = directory.glob(f"{below}{_EMBEDDING}*.npy")
        folders = sorted({path.parent for path in files})
        if len(folders) > 1:
            names = ", ".join(str(path.relative_to(directory)) for path in folders)
            raise ModelError(
                f"{display_path(directory)} has arrays of several models: {names}; give the "
                "folder of one model"
            )
        if folders:
            return folders[0]
    raise ModelError(
        f"{display_path(directory)} has no {_EMBEDDING}*.npy; give --decoder-assets the folder "
        "decoder_assets that convert --hailo writes, or fetch-hef fetches"
    )


def _find_file(folder: Path, stem: str, length: int) -> Path:
    """Return the file of a kind; some are stored once per length, as `..._seq_32.npy`."""
    files = sorted(path for path in folder.glob(f"{stem}*.npy") if path.is_file())
    exact = [path for path in files if path.stem.endswith(f"_seq_{length}")]
    plain = [path for path in files if "_seq_" not in path.stem]
    for candidates in (exact, plain, files):
        if len(candidates) == 1:
            return candidates[0]
    names = ", ".join(path.name for path in files) or "none"
    raise ModelError(
        f"{display_path(folder)} has {names}, expected one {stem}*.npy for {length} positions"
    )


def _load_table(path: Path, shape: tuple[int, int]) -> FloatArray:
    """Return a table of exactly this shape; position rows may be more than the decoder's.

    A pickle, which can run code, is refused.
    """
    try:
        array: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ModelError(
            f"{display_path(path)} is not a readable array ({one_line(error)}); make or fetch it "
            "again"
        ) from error
    if array.ndim > 2:
        array = array.reshape(-1, array.shape[-1])
    stored_shape = array.shape
    if _POSITIONS in path.name and array.ndim == 2:
        array = array[: shape[0]]
    if array.shape != shape or array.dtype.kind != "f":
        raise ModelError(
            f"{display_path(path)} is {array.dtype} {stored_shape}, the decoder needs float32 "
            f"{shape}; assets and decoder must be from the same model"
        )
    return array


class HefRunner(_HefPart):
    """The decoder of a HEF on a Hailo chip; the host looks tokens up and joins the logits.

    Attributes:
        positions: who adds the position rows, `HOST` or `CHIP`: by the file's kind, unless it is
            set before it is opened.
    """

    def __init__(
        self, path: Path, spec: ModelSpec, assets: Path, options: ChipOptions = ALONE
    ) -> None:
        hef, self.shape = check_decoder(path, spec)
        super().__init__(hef, self.shape.group, options)
        self._outputs = self.shape.logits(spec.dims.n_vocab)
        self._sizes = (spec.dims.n_vocab, spec.dims.d_model, self.shape.length)
        self._folder = assets
        self._assets: tuple[FloatArray, FloatArray | None] | None = None
        self.path = path
        self.positions = self.shape.positions
        self.length = self.shape.length
        self.n_positions = self.shape.n_positions

    def open(self) -> Self:
        on_host = self.positions == HOST
        self._assets = load_assets(self._folder, self._sizes, positions=on_host)
        return super().open()

    def close(self) -> None:
        super().close()
        self._assets = None

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        if self._assets is None:
            raise ModelError(
                f"{self.name} is not loaded; it was closed while it was in use"
            )
        table, position_rows = self._assets
        logits = []
        for ids, features in zip(tokens, audio_features, strict=True):
            embeddings = np.asarray(table[ids], np.float32)
            if position_rows is not None:
                embeddings = embeddings + position_rows
            inputs = {self.shape.features: features, self.shape.embeddings: embeddings}
            chunks = self.lease.run(inputs, self._outputs)
            parts = [chunks[name].reshape(self.length, -1) for name in self._outputs]
            logits.append(np.concatenate(parts, axis=1))
        return np.stack(logits)
