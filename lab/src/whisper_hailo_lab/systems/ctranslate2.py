"""CTranslate2's Whisper without faster-whisper: windows of any length."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    Loading,
    SystemResult,
    WholeModel,
    import_package,
)

WINDOW_S: Final = 10.0
MARGIN_S: Final = 1.0


class CTranslate2(WholeModel):
    """`ctranslate2.models.Whisper`, greedy, on consecutive windows of our log-mel.

    Settings: `window_s` (10; the rest of a window is silence, as in ours, and nothing is padded
    after the encoder), `compute_type` (int8), `encoder` (a model directory of ours, whose encoder
    replaces its own).
    """

    packages = ("ctranslate2", "tokenizers", "numpy")

    def __init__(self, loading: Loading) -> None:
        super().__init__(loading)
        settings = loading.case.settings
        self._window_s = float(settings.get("window_s", WINDOW_S))
        self._compute_type = str(settings.get("compute_type", "int8"))
        margin_s = 0.0 if loading.case.row == "forced" else MARGIN_S
        self._content_samples = round((self._window_s - margin_s) * SAMPLE_RATE_HZ)
        self._tokenizer: Any = None
        folder = settings.get("encoder")
        self._encoder = None
        if folder is not None:
            self._encoder = _make_encoder(Path(folder), loading.case.threads)

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model, and our encoder if it replaces its own."""
        ctranslate2 = import_package("ctranslate2", "faster-whisper")
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(
            str(Path(self._loading.path) / "tokenizer.json")
        )
        self._model = watch(
            "model",
            lambda: ctranslate2.models.Whisper(
                self._loading.path,
                device="cpu",
                compute_type=self._compute_type,
                intra_threads=self._loading.case.threads,
            ),
        )
        if self._encoder is not None:
            watch("encoder", self._encoder.open)
        return {
            "engine": "CTranslate2",
            "encoder": "its own" if self._encoder is None else self._encoder.name,
            "compute_type": self._model.compute_type,
            "window_s": self._window_s,
            "beam_size": 1,
        }

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return text and stage times; `decode` includes the cross keys and values."""
        stages_ms = {"mel": 0.0, "encode": 0.0, "decode": 0.0}
        tokens: list[int] = []
        for start in range(0, max(1, audio.size), self._content_samples):
            window = audio[start : start + self._content_samples]
            tokens += self._transcribe_window(window, language, stages_ms)
        return SystemResult(
            self._tokenizer.decode(tokens).strip(), stages_ms, len(tokens)
        )

    def _transcribe_window(
        self,
        audio: FloatArray,
        language: str,
        stages_ms: dict[str, float],
    ) -> list[int]:
        """Return the token ids of one window, and add its times to those of the stages."""
        import ctranslate2

        times = [perf_counter()]
        padded = pad_or_trim(audio, round(self._window_s * SAMPLE_RATE_HZ))
        mel = log_mel(padded, self._model.n_mels)[np.newaxis]
        times.append(perf_counter())
        view = ctranslate2.StorageView.from_array
        if self._encoder is None:
            encoded = self._model.encode(view(mel))
        else:
            encoded = view(np.ascontiguousarray(self._encoder.encode(mel)))
        times.append(perf_counter())
        prompt = [
            f"<|{name}|>" for name in ("startoftranscript", language, "transcribe")
        ]
        prompt.append("<|notimestamps|>")
        results = self._model.generate(
            encoded,
            [prompt],
            beam_size=1,
            **self._length_options(len(prompt)),
        )
        ids: list[int] = results[0].sequences_ids[0]
        times.append(perf_counter())
        for stage, (begin, end) in zip(stages_ms, pairwise(times), strict=True):
            stages_ms[stage] += (end - begin) * 1000.0
        return ids

    def close(self) -> None:
        """Release the model and our encoder."""
        if self._encoder is not None:
            self._encoder.close()
        super().close()

    def _length_options(self, n_prompt: int) -> dict[str, int]:
        """Return the option that bounds the number of tokens."""
        budget = self._loading.case.budget
        if budget is None:
            return {}
        # It generates half of `max_length`, or what the prompt leaves of it, if that is less.
        return {"max_length": max(2 * budget, budget + n_prompt)}


def _make_encoder(folder: Path, threads: int) -> OnnxEncoder:
    return OnnxEncoder(folder, ModelSpec.load(folder), threads)
