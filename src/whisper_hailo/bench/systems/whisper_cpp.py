"""whisper.cpp, through pywhispercpp."""

from __future__ import annotations

from typing import Any

from whisper_hailo.bench.systems.protocol import Heard, Loading, Watch
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray

EXTRA = "whisper-cpp"


class WhisperCpp:
    """A ggml model. Settings: `audio_ctx` (encoder positions; 0 is all 1500)."""

    packages = ("pywhispercpp", "numpy")

    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self._model: Any = None

    def open(self, watch: Watch) -> dict[str, Any]:
        """Load the model; encoder and decoder come as one."""
        try:
            from pywhispercpp.model import Model
        except ImportError as error:
            raise OptionError(
                f"pywhispercpp is not installed ({error}); pip install 'whisper-hailo[{EXTRA}]'"
            ) from error
        options = self._options()
        self._model = watch(
            "model",
            lambda: Model(self._loading.path, redirect_whispercpp_logs_to=None, **options),
        )
        return {"engine": "ggml"} | options

    def warm_up(self, audio: FloatArray, watch: Watch) -> None:
        """One run."""
        watch("model", lambda: self.transcribe(audio, self._loading.case.language))

    def transcribe(self, audio: FloatArray, language: str) -> Heard:
        """Text; whisper.cpp keeps its stage times to itself."""
        segments = self._model.transcribe(audio, language=language)
        return Heard(text=" ".join(segment.text.strip() for segment in segments))

    def close(self) -> None:
        """Free the model."""
        self._model = None

    def _options(self) -> dict[str, Any]:
        case = self._loading.case
        options: dict[str, Any] = {"language": case.language, "print_progress": False}
        if case.threads:
            options["n_threads"] = case.threads
        if case.settings.get("audio_ctx"):
            options["audio_ctx"] = int(case.settings["audio_ctx"])
        if case.greedy:  # the default row keeps temperature fallback and best of five
            options |= {
                "temperature": 0.0,
                "temperature_inc": 0.0,
                "greedy": {"best_of": 1},
                "no_context": True,
                "no_timestamps": True,
            }
        if case.budget is not None:
            options["max_tokens"] = case.budget
        return options
