"""openai-whisper behind the harness's protocol; runs in an environment of its own."""

from __future__ import annotations

from typing import Any

import torch
import whisper

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.harness.worker import answer_orders
from whisper_hailo_lab.systems.protocol import ComponentWatch, SystemResult, WholeModel


class OpenAiWhisper(WholeModel):
    """`whisper.transcribe` on the CPU in float32."""

    packages = ("openai-whisper", "torch", "numpy")

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        case = self._loading.case
        if case.threads:
            torch.set_num_threads(case.threads)
        self._model = watch(
            "model", lambda: whisper.load_model(self._loading.path, device="cpu").eval()
        )
        return {"engine": "torch", "fp16": False} | self._options()

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        result = self._model.transcribe(
            audio, language=language, fp16=False, **self._options()
        )
        return SystemResult(
            text=str(result["text"]).strip(),
            n_tokens=sum(len(segment["tokens"]) for segment in result["segments"]),
        )

    def _options(self) -> dict[str, Any]:
        """The default row keeps the program's own: temperature fallback and previous text."""
        case = self._loading.case
        if not case.greedy:
            return {}
        bound = {} if case.budget is None else {"sample_len": case.budget}
        return bound | {
            "temperature": 0.0,
            "condition_on_previous_text": False,
            "without_timestamps": True,
        }


if __name__ == "__main__":
    answer_orders(OpenAiWhisper)
