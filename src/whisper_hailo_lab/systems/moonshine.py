"""Moonshine, as the study ran it: `useful-moonshine-onnx`, English only."""

from __future__ import annotations

from typing import Any

from whisper_hailo.backends.moonshine import MAX_S, SIZES, Moonshine
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.systems.protocol import ComponentWatch, Loading, SystemResult


class MoonshineSystem:
    """Weights of a folder, or of the model hub. Settings: `size`, `precision` (float)."""

    packages = ("useful-moonshine-onnx", "onnxruntime", "numpy")

    def __init__(self, loading: Loading) -> None:
        case = loading.case
        size = str(case.settings.get("size", SIZES[0]))
        precision = str(case.settings.get("precision", "float"))
        self._model = Moonshine(loading.path, size, precision)
        self._language, self._budget = case.language, case.budget

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model; encoder and decoder come as one."""
        watch("model", self._model.open)
        own = {"size": self._model.size, "precision": self._model.precision}
        return {"engine": "ONNX Runtime", **own}

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        watch("model", lambda: self.transcribe(audio, self._language))

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Text of consecutive pieces of less than 64 s, which is all that the package takes."""
        if language != "en":
            raise OptionError(f"Moonshine only hears English, got language {language!r}")
        n_most = int(MAX_S * SAMPLE_RATE_HZ) - 1
        pieces = [audio[i : i + n_most] for i in range(0, len(audio), n_most)]
        found = [self._model.transcribe(piece, self._budget) for piece in pieces]
        return SystemResult(" ".join(text for text, _ in found), n_tokens=sum(n for _, n in found))

    def close(self) -> None:
        self._model.close()
