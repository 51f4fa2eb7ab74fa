"""One window of speech as the rows that the chip's inputs take."""

from __future__ import annotations

import re
import shutil
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.errors import ModelError, shown
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer


class RowMaker(Protocol):
    """Turns the audio of a window into one row per input of the chip."""

    def rows(self, audio: FloatArray) -> tuple[FloatArray, ...]:
        """One row `(height, width, channels)` per input, from `(n_samples,)` float32 audio."""


def net_name(spec: ModelSpec, form: HailoForm) -> str:
    """Name of the network in the compiler: letters, digits and underscores."""
    return re.sub(r"\W", "_", f"{spec.name}_{Path(form.file).stem}", flags=re.ASCII)


class EncoderRows:
    """Log-mel of the window, `(1, n_frames, n_mels)`."""

    def __init__(self, spec: ModelSpec, plan: WindowPlan) -> None:
        self._spec = spec
        self._plan = plan

    def rows(self, audio: FloatArray) -> tuple[FloatArray, ...]:
        """The window's log-mel, its margin silent."""
        return (np.ascontiguousarray(self.mel(audio).T)[np.newaxis],)

    def mel(self, audio: FloatArray) -> FloatArray:
        """`(n_mels, n_frames)` of the whole window."""
        padded = pad_or_trim(audio, self._plan.window_samples)
        return log_mel(padded, self._spec.dims.n_mels)


class DecoderRows:
    """Audio features `(1, n_positions, d_model)` and embeddings `(length, 1, d_model)`.

    The tokens are those that our own decoder hears in the window; ids after them are 0, and
    position rows are added, as the host of a HEF does it.

    Args:
        directory: the model directory.
        spec: its description.
        form: the decoder's Hailo form.
        plan: the window.
        language: what is spoken, or translated from.
        stack: closes the model at the end.
    """

    def __init__(
        self,
        directory: Path,
        spec: ModelSpec,
        form: HailoForm,
        plan: WindowPlan,
        *,
        language: str,
        stack: ExitStack,
    ) -> None:
        options = DecodingOptions(language=language)
        tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
        self._prefix = tokenizer.prefix(language, options.task)
        self._table = _asset(directory / form.assets["token_embedding"])
        self._positions = _asset(directory / form.assets["position_rows"])
        self._length = self._positions.shape[0]
        self._mel = EncoderRows(spec, plan)
        self._encoder = stack.enter_context(OnnxEncoder(directory, spec))
        self._decoder = stack.enter_context(CachedDecoder(directory, spec))
        self._padding = options.cures.padding(spec.dims, self._decoder.silence_keys)
        self._loop = DecodingLoop(self._decoder, spec.tokens, options)
        self._eot = spec.tokens.eot

    def rows(self, audio: FloatArray) -> tuple[FloatArray, ...]:
        """The window's features, and what the chip's decoder gets at its last step."""
        features = self._encoder.encode(self._mel.mel(audio)[np.newaxis])
        state = self._decoder.start(features, (self._padding,))
        decoded = self._loop.run(state, [DecodingTask(self._prefix)])[0]
        heard = (*self._prefix, *decoded.tokens, self._eot)[: self._length]
        ids = np.zeros(self._length, dtype=np.int64)
        ids[: len(heard)] = heard
        embeddings = self._table[ids] + self._positions
        return features, embeddings[:, np.newaxis]


def _asset(path: Path) -> FloatArray:
    """An array of the host, mapped from its file."""
    try:
        array: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{shown(path)} cannot be read ({error}); convert the checkpoint again with --hailo"
        ) from error
    return array


_EPOCH = (1980, 1, 1, 0, 0, 0)
_ZIP64_BYTES = 1 << 31


def add_file(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Copy a file into an archive, a block at a time."""
    large = path.stat().st_size >= _ZIP64_BYTES
    with path.open("rb") as source, archive.open(_info(name), "w", force_zip64=large) as target:
        shutil.copyfileobj(source, target, 1 << 20)


def add_text(archive: zipfile.ZipFile, name: str, text: str) -> None:
    """Write a text into an archive."""
    archive.writestr(_info(name), text.encode())


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=_EPOCH)
    info.external_attr = 0o644 << 16
    info.create_system = 3
    return info
