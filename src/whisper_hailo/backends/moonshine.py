"""Moonshine by `useful-moonshine-onnx`: it hears audio itself, owns its loop, and knows English."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

GRAPHS: Final = ("encoder_model.onnx", "decoder_model_merged.onnx")
SIZES: Final = ("tiny", "base")
MAX_S: Final = 64.0
"""Longest piece that the package takes."""
LEAST_S: Final = 0.2
"""The package refuses pieces of 0.1 s or less; they are filled up with silence."""


class Moonshine(Closing):
    """Weights of a folder, or of the model hub and its cache.

    There is no checkpoint conversion: Moonshine is an architecture of its own.

    Args:
        source: a size, or a folder with the graphs.
        size: what a folder's graphs are; else `source` says it.
        precision: of the hub's weights.

    Raises:
        OptionError: no such size.
    """

    def __init__(
        self, source: str = "tiny", size: str | None = None, precision: str = "float"
    ) -> None:
        self.size = size or (source if source in SIZES else SIZES[0])
        if self.size not in SIZES:
            raise OptionError(f"Moonshine size is {self.size!r}, expected one of: {SIZES}")
        self.precision = precision
        self._source = source
        self._model: Any = None
        self._tokenizer: Any = None

    def open(self) -> Self:
        """Load the weights; encoder and decoder come as one.

        Raises:
            OptionError: the package is not installed.
            ModelError: the weights are not there.
        """
        try:
            import moonshine_onnx
        except ImportError as error:
            raise OptionError(
                f"useful-moonshine-onnx is not installed ({error}); {to_add('moonshine')}"
            ) from error
        self._model = self._load(moonshine_onnx)
        self._tokenizer = moonshine_onnx.load_tokenizer()
        return self

    def close(self) -> None:
        """Free the weights."""
        self._model = None

    def transcribe(self, audio: FloatArray, n_most: int | None = None) -> tuple[str, int]:
        """Text and number of its tokens.

        Args:
            audio: `(n_samples,)` float32, 16 kHz mono, shorter than `MAX_S`.
            n_most: tokens; `None` is the package's own bound.
        """
        missing = round(LEAST_S * SAMPLE_RATE_HZ) - audio.size
        if missing > 0:
            audio = np.pad(audio, (0, missing))
        bound = {} if n_most is None else {"max_len": n_most}
        ids = self._model.generate(audio[None, :], **bound)
        text: str = self._tokenizer.decode_batch(ids)[0]
        return text.strip(), len(ids[0]) - 1

    def _load(self, package: Any) -> Any:  # noqa: ANN401 - a package without types
        """From a folder where one was given, else from the hub or its cache."""
        folder = Path(self._source)
        local = folder.is_dir()
        missing = [name for name in GRAPHS if local and not (folder / name).is_file()]
        graphs = f"onnx/merged/{self.size}/{self.precision}/"
        if missing:
            raise ModelError(
                f"{folder} lacks {' and '.join(missing)}; copy {graphs} of the hub repository "
                "UsefulSensors/moonshine there"
            )
        try:
            return package.MoonshineOnnxModel(
                models_dir=str(folder) if local else None,
                model_name=self.size,
                model_precision=self.precision,
            )
        except Exception as error:
            reason = " ".join(str(error).split())[:160]
            raise ModelError(
                f"Moonshine's weights cannot be loaded ({reason}); they are in the hub repository "
                f"UsefulSensors/moonshine, {graphs}: give a folder that holds them, or a network"
            ) from error
