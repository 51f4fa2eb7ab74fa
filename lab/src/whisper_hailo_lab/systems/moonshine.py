"""Moonshine by its own package, `moonshine-voice`, English only."""

from __future__ import annotations

from typing import Any

from whisper_hailo.backends.moonshine import MAX_S, SIZES, Moonshine
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.systems.protocol import ComponentWatch, Loading, SystemResult


class MoonshineSystem:
    """Weights of a folder, or of the package's server. Settings: `size`."""

    packages = ("moonshine-voice", "numpy")

    def __init__(self, loading: Loading) -> None:
        case = loading.case
        if case.budget is not None:
            raise OptionError("Moonshine takes no token budget; it has no row 'study'")
        self._model = Moonshine(loading.path, str(case.settings.get("size", SIZES[0])))
        self._language = case.language

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model; encoder and decoder come as one."""
        watch("model", self._model.open)
        return {"engine": "Moonshine", "size": self._model.size}

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        watch("model", lambda: self.transcribe(audio, self._language))

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Text of consecutive pieces of less than `MAX_S`."""
        if language != "en":
            raise OptionError(f"Moonshine only hears English, got language {language!r}")
        n_most = int(MAX_S * SAMPLE_RATE_HZ) - 1
        pieces = [audio[i : i + n_most] for i in range(0, len(audio), n_most)]
        return SystemResult(" ".join(map(self._model.transcribe, pieces)))

    def close(self) -> None:
        self._model.close()
