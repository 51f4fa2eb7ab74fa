"""faster-whisper, which runs Whisper on CTranslate2."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    Loading,
    SystemResult,
    WholeModel,
    package,
)

N_PROMPT = 4
"""Start-of-transcript, language, task, no timestamps."""


class FasterWhisper(WholeModel):
    """`WhisperModel` on the CPU. Settings: `compute_type` (int8 as in the study, or float32)."""

    packages = ("faster-whisper", "ctranslate2", "onnxruntime", "numpy")

    def __init__(self, loading: Loading) -> None:
        super().__init__(loading)
        self._compute_type = str(loading.case.settings.get("compute_type", "int8"))
        self._stages_ms: dict[str, float] = {}

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model; encoder and decoder come as one."""
        faster_whisper = package("faster_whisper", "faster-whisper")
        self._model = watch(
            "model",
            lambda: faster_whisper.WhisperModel(
                self._loading.path,
                device="cpu",
                compute_type=self._compute_type,
                cpu_threads=self._loading.case.threads,
            ),
        )
        self._clock("encode", self._model, "encode")
        self._clock("mel", self._model, "feature_extractor")
        return {"engine": "CTranslate2", "compute_type": self._compute_type} | self._options()

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Text; the segments come lazily, so the work is done while they are joined."""
        self._stages_ms = {"mel": 0.0, "encode": 0.0}
        begin = perf_counter()
        segments, _ = self._model.transcribe(audio, language=language, **self._options())
        found = list(segments)
        total_ms = (perf_counter() - begin) * 1000.0
        stages = self._stages_ms | {"decode": total_ms - sum(self._stages_ms.values())}
        return SystemResult(
            text=" ".join(segment.text.strip() for segment in found),
            stages_ms=stages,
            n_tokens=sum(len(segment.tokens) for segment in found),
        )

    def _options(self) -> dict[str, Any]:
        """Nothing in the default row, so that the package's own defaults hold."""
        case = self._loading.case
        if not case.greedy:
            return {}
        # CTranslate2 takes half of what it is given together with the prompt, if that is less.
        bound = {} if case.budget is None else {"max_new_tokens": 2 * case.budget - N_PROMPT}
        return bound | {
            "beam_size": 1,
            "best_of": 1,
            "temperature": 0.0,
            "condition_on_previous_text": False,
            "without_timestamps": True,
            "vad_filter": False,
        }

    def _clock(self, stage: str, owner: object, name: str) -> None:
        """Time every call of a member of the model."""
        original: Callable[..., Any] = getattr(owner, name)
        setattr(owner, name, _Timed(original, stage, self))

    def note(self, stage: str, ms: float) -> None:
        """Add time to a stage."""
        self._stages_ms[stage] = self._stages_ms.get(stage, 0.0) + ms


class _Timed:
    """A callable that also has all attributes of what it stands for."""

    def __init__(self, original: Callable[..., Any], stage: str, owner: FasterWhisper) -> None:
        self._original, self._stage, self._owner = original, stage, owner

    def __call__(self, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the original
        begin = perf_counter()
        try:
            return self._original(*args, **keywords)
        finally:
            self._owner.note(self._stage, (perf_counter() - begin) * 1000.0)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the original
        return getattr(self._original, name)
