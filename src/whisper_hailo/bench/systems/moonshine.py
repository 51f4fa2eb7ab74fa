"""Moonshine, as the study ran it: `useful-moonshine-onnx`, English only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from whisper_hailo.bench.systems.protocol import Heard, Loading, Watch
from whisper_hailo.convert.hub import fetch_files
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.names import shown
from whisper_hailo.core.types import FloatArray

EXTRA: Final = "moonshine"
HUB_ID: Final = "UsefulSensors/moonshine"
GRAPHS = ("encoder_model.onnx", "decoder_model_merged.onnx")
SIZES = ("tiny", "base")
MAX_S = 64.0
"""Longest piece that the package takes."""


class Moonshine:
    """Weights of a directory, or of the model hub. Settings: `size`, `precision` (float).

    There is no checkpoint conversion: Moonshine is an architecture of its own.
    """

    packages = ("useful-moonshine-onnx", "onnxruntime", "numpy")

    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self._size = str(loading.case.settings.get("size", "tiny"))
        self._precision = str(loading.case.settings.get("precision", "float"))
        self._model: Any = None
        self._tokenizer: Any = None

    def open(self, watch: Watch) -> dict[str, Any]:
        """Load the model; encoder and decoder come as one."""
        if self._size not in SIZES:
            raise OptionError(f"Moonshine size is {self._size!r}, expected one of: {SIZES}")
        try:
            import moonshine_onnx
        except ImportError as error:
            raise OptionError(
                f"useful-moonshine-onnx is not installed ({error}); {to_add(EXTRA)}"
            ) from error
        self._model = watch("model", lambda: self._load(moonshine_onnx))
        self._tokenizer = moonshine_onnx.load_tokenizer()
        return {"engine": "ONNX Runtime", "size": self._size, "precision": self._precision}

    def warm_up(self, audio: FloatArray, watch: Watch) -> None:
        """One run."""
        watch("model", lambda: self.transcribe(audio, self._loading.case.language))

    def transcribe(self, audio: FloatArray, language: str) -> Heard:
        """Text of consecutive pieces of at most 64 s, which is all that the package takes."""
        if language != "en":
            raise OptionError(f"Moonshine only hears English, got language {language!r}")
        n_samples = int(MAX_S * 16_000) - 1
        pieces = [audio[i : i + n_samples] for i in range(0, len(audio), n_samples)]
        tokens = [self._model.generate(piece[None, :], **self._budget()) for piece in pieces]
        texts = [self._tokenizer.decode_batch(ids)[0] for ids in tokens]
        return Heard(
            text=" ".join(text.strip() for text in texts),
            n_tokens=sum(len(ids[0]) - 1 for ids in tokens),
        )

    def close(self) -> None:
        """Free the model."""
        self._model = None

    def _budget(self) -> dict[str, int]:
        budget = self._loading.case.budget
        return {} if budget is None else {"max_len": budget}

    def _load(self, package: Any) -> Any:  # noqa: ANN401 - a package without types
        """From a directory where one was given, else from the hub or its cache."""
        folder, at_hub = Path(self._loading.path), f"onnx/merged/{self._size}/{self._precision}"
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
                model_name=self._size,
                model_precision=self._precision,
            )
        except Exception as error:
            reason = " ".join(str(error).split())[:160]
            raise ModelError(
                f"Moonshine's weights in {shown(folder)} cannot be loaded ({reason}); fetch "
                f"{at_hub}/ of the hub repository {HUB_ID} again"
            ) from error
