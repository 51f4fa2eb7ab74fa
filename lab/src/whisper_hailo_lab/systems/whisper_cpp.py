"""whisper.cpp in this process, through pywhispercpp."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    SystemResult,
    WholeModel,
    import_package,
)


class WhisperCpp(WholeModel):
    """A ggml model. Settings: `audio_ctx` (encoder positions; 0 is all 1500).

    In the `forced` row its own function computes the log-mel first, so that the rest can be timed
    alone: given no samples, it transcribes the log-mel that it has.
    """

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
        begin = perf_counter()
        stages_ms = {}
        if self._loading.case.row == "forced":
            self._compute_mel(audio)
            stages_ms["mel"] = (perf_counter() - begin) * 1000.0
            audio = np.zeros(0, np.float32)
        begin = perf_counter()
        segments = self._model.transcribe(audio, language=language)
        if stages_ms:
            stages_ms["rest"] = (perf_counter() - begin) * 1000.0
        text = " ".join(segment.text.strip() for segment in segments)
        return SystemResult(text, stages_ms, self._n_tokens() if stages_ms else None)

    def _compute_mel(self, audio: FloatArray) -> None:
        """Store the log-mel in the model."""
        import _pywhispercpp as cpp

        threads = max(1, self._loading.case.threads)
        cpp.whisper_pcm_to_mel(self._model._ctx, audio, audio.size, threads)

    def _n_tokens(self) -> int:
        """Return the number of tokens of the last text."""
        import _pywhispercpp as cpp

        context = self._model._ctx
        segments = range(cpp.whisper_full_n_segments(context))
        return sum(cpp.whisper_full_n_tokens(context, index) for index in segments)

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
