"""faster-whisper: Whisper on CTranslate2."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    Loading,
    SystemResult,
    WholeModel,
    import_package,
)

N_PROMPT: Final = 4
"""Tokens of the prompt: start-of-transcript, language, task, no timestamps."""


class FasterWhisper(WholeModel):
    """`WhisperModel` on the CPU. Settings: `compute_type` (int8 as in the study, or float32)."""

    packages = ("faster-whisper", "ctranslate2", "onnxruntime", "numpy")

    def __init__(self, loading: Loading) -> None:
        super().__init__(loading)
        self._compute_type = str(loading.case.settings.get("compute_type", "int8"))
        self._stages_ms: dict[str, float] = {}

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model, encoder and decoder together."""
        faster_whisper = import_package("faster_whisper", "faster-whisper")
        self._model = watch(
            "model",
            lambda: faster_whisper.WhisperModel(
                self._loading.path,
                device="cpu",
                compute_type=self._compute_type,
                cpu_threads=self._loading.case.threads,
            ),
        )
        self._time_member("encode", "encode")
        self._time_member("mel", "feature_extractor")
        return {
            "engine": "CTranslate2",
            "compute_type": self._compute_type,
        } | self._transcription_options()

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return text and stage times."""
        self._stages_ms = {"mel": 0.0, "encode": 0.0}
        begin = perf_counter()
        segments, _ = self._model.transcribe(
            audio, language=language, **self._transcription_options()
        )
        # Segments are lazy: most of the work is done here.
        segments = list(segments)
        total_ms = (perf_counter() - begin) * 1000.0
        stages = self._stages_ms | {"decode": total_ms - sum(self._stages_ms.values())}
        return SystemResult(
            text=" ".join(segment.text.strip() for segment in segments),
            stages_ms=stages,
            n_tokens=sum(len(segment.tokens) for segment in segments),
        )

    def _transcription_options(self) -> dict[str, Any]:
        """Return the options of transcription; the default row keeps the package's defaults."""
        case = self._loading.case
        if not case.greedy:
            return {}
        options: dict[str, Any] = {
            "beam_size": 1,
            "best_of": 1,
            "temperature": 0.0,
            "condition_on_previous_text": False,
            "without_timestamps": True,
            "vad_filter": False,
        }
        if case.budget is not None:
            # CTranslate2 generates half of this and the prompt together, if that is less.
            options["max_new_tokens"] = 2 * case.budget - N_PROMPT
        return options

    def _time_member(self, stage: str, name: str) -> None:
        """Time every call of a member of the model as a stage."""
        original: Callable[..., Any] = getattr(self._model, name)
        setattr(self._model, name, _TimedCall(original, stage, self))

    def add_time(self, stage: str, ms: float) -> None:
        """Add time to a stage."""
        self._stages_ms[stage] = self._stages_ms.get(stage, 0.0) + ms


class _TimedCall:
    """A timed callable that also has the attributes of the original."""

    def __init__(
        self,
        original: Callable[..., Any],
        stage: str,
        owner: FasterWhisper,
    ) -> None:
        self._original = original
        self._stage = stage
        self._owner = owner

    def __call__(self, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the original
        begin = perf_counter()
        try:
            return self._original(*args, **keywords)
        finally:
            self._owner.add_time(self._stage, (perf_counter() - begin) * 1000.0)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the original
        return getattr(self._original, name)
