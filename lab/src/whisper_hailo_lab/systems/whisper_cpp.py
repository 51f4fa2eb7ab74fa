"""whisper.cpp in this process, through pywhispercpp."""

from __future__ import annotations

from typing import Any

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    SystemResult,
    WholeModel,
    import_package,
)


class WhisperCpp(WholeModel):
    """A ggml model. Settings: `audio_ctx` (encoder positions; 0 is all 1500)."""

    packages = ("pywhispercpp", "numpy")

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model, encoder and decoder together."""
        whisper_cpp = import_package("pywhispercpp.model", "whisper-cpp")
        options = self._model_options()
        self._model = watch(
            "model",
            lambda: whisper_cpp.Model(
                self._loading.path, redirect_whispercpp_logs_to=None, **options
            ),
        )
        return {"engine": "ggml"} | options

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return the text; whisper.cpp does not report the times of its stages."""
        segments = self._model.transcribe(audio, language=language)
        return SystemResult(" ".join(segment.text.strip() for segment in segments))

    def _model_options(self) -> dict[str, Any]:
        """Return the arguments of the model; the default row keeps its own defaults."""
        case = self._loading.case
        options: dict[str, Any] = {"language": case.language, "print_progress": False}
        if case.threads:
            options["n_threads"] = case.threads
        if case.settings.get("audio_ctx"):
            options["audio_ctx"] = int(case.settings["audio_ctx"])
        if case.greedy:
            # Otherwise it keeps its temperature fallback and the best of five.
            options |= {
                "temperature": 0.0,
                "temperature_inc": 0.0,
                "greedy": {"best_of": 1},
                "no_context": True,
                "no_timestamps": True,
            }
        if case.budget is not None:
            # It stops after one token more than it is told.
            options["max_tokens"] = case.budget - 1
        return options
