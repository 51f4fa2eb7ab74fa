"""Moonshine by `useful-moonshine-onnx`: it hears audio itself, owns its loop, and knows English."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.hub import fetch_files
from whisper_hailo.core.names import shown
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

HUB_ID: Final = "UsefulSensors/moonshine"
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
            HubError: the weights cannot be fetched.
            ModelError: they are not there, or broken.
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
        folder, at_hub = Path(self._source), f"onnx/merged/{self.size}/{self.precision}"
        if not folder.is_dir():
            instead = f"or give a folder that holds {' and '.join(GRAPHS)} of its {at_hub}/"
            names = [f"{at_hub}/{name}" for name in GRAPHS]
            folder = fetch_files(HUB_ID, names, instead) / at_hub
        missing = [name for name in GRAPHS if not (folder / name).is_file()]
        if missing:
            raise ModelError(
                f"{shown(folder)} lacks {' and '.join(missing)}; copy {at_hub}/ of the hub "
                f"repository {HUB_ID} there"
            )
        try:
            return package.MoonshineOnnxModel(
                models_dir=str(folder),
                model_name=self.size,
                model_precision=self.precision,
            )
        except Exception as error:
            reason = " ".join(str(error).split())[:160]
            raise ModelError(
                f"Moonshine's weights in {shown(folder)} cannot be loaded ({reason}); fetch "
                f"{at_hub}/ of the hub repository {HUB_ID} again"
            ) from error
