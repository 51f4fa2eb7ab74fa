"""Moonshine through its own package, `moonshine-voice`; English only."""

from __future__ import annotations

from typing import Any

from whisper_hailo.backends.moonshine import MAX_S, SIZES, Moonshine
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.systems.protocol import ComponentWatch, Loading, SystemResult


class MoonshineSystem:
    """Moonshine with weights of a folder or of the package's server. Settings: `size`."""

    packages = ("moonshine-voice", "numpy")

    def __init__(self, loading: Loading) -> None:
        case = loading.case
        if case.budget is not None:
            raise OptionError("Moonshine takes no token budget; it has no row 'study'")
        self._model = Moonshine(loading.path, str(case.settings.get("size", SIZES[0])))
        self._language = case.language

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model, encoder and decoder together."""
        watch("model", self._model.open)
        return {"engine": "Moonshine", "size": self._model.size}

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        """Transcribe once, watched."""
        watch("model", lambda: self.transcribe(audio, self._language))

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return the text of consecutive pieces, each shorter than `MAX_S`."""
        if language != "en":
            raise OptionError(
                f"Moonshine supports English only, got language {language!r}"
            )
        n_most = int(MAX_S * SAMPLE_RATE_HZ) - 1
        starts = range(0, len(audio), n_most)
        texts = [
            self._model.transcribe(audio[start : start + n_most]) for start in starts
        ]
        return SystemResult(" ".join(texts))

    def close(self) -> None:
        """Release the model."""
        self._model.close()
