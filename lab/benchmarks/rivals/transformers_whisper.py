"""Transformers' Whisper behind the harness's protocol; runs in an environment of its own."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import torch
from transformers import (
    PreTrainedTokenizerFast,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.harness.worker import answer_orders
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    Loading,
    SystemResult,
    WholeModel,
)

WINDOW = 30 * 16_000


class Transformers(WholeModel):
    """`generate` on consecutive 30 s windows, float32 on the CPU.

    The two rows differ in nothing but the settings of `generate`: the default one takes those of
    the checkpoint.
    """

    packages = ("transformers", "torch", "tokenizers", "numpy")

    def __init__(self, loading: Loading) -> None:
        super().__init__(loading)
        self._tokenizer: Any = None
        self._extractor: Any = None
        self._encode_ms = 0.0
        self._encode_begin = 0.0

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        case = self._loading.case
        path = self._loading.path
        if case.threads:
            torch.set_num_threads(case.threads)
        self._extractor = WhisperFeatureExtractor.from_pretrained(path)
        self._tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=f"{path}/tokenizer.json"
        )
        self._model = watch(
            "model",
            lambda: WhisperForConditionalGeneration.from_pretrained(
                path, dtype=torch.float32
            ).eval(),
        )
        self._clock_encoder()
        return {"engine": "torch"} | self._options()

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        texts = []
        n_tokens = 0
        mel_ms = 0.0
        eot = self._model.generation_config.eos_token_id
        self._encode_ms = 0.0
        begin = perf_counter()
        for start in range(0, len(audio), WINDOW):
            mel_begin = perf_counter()
            mel = self._extractor(
                audio[start : start + WINDOW], sampling_rate=16_000, return_tensors="pt"
            ).input_features
            mel_ms += (perf_counter() - mel_begin) * 1000.0
            with torch.no_grad():
                ids = self._model.generate(
                    mel, language=language, task="transcribe", **self._options()
                )[0].tolist()
            tokens = [token for token in ids if token < eot]
            n_tokens += len(tokens)
            texts.append(self._tokenizer.decode(tokens).strip())
        total_ms = (perf_counter() - begin) * 1000.0
        stages_ms = {"mel": mel_ms, "encode": self._encode_ms}
        stages_ms["decode"] = total_ms - mel_ms - self._encode_ms
        return SystemResult(" ".join(texts), stages_ms, n_tokens)

    def _clock_encoder(self) -> None:
        """Note the time of every pass of the encoder."""

        def begin(*_: object) -> None:
            self._encode_begin = perf_counter()

        def end(*_: object) -> None:
            self._encode_ms += (perf_counter() - self._encode_begin) * 1000.0

        encoder = self._model.get_encoder()
        encoder.register_forward_pre_hook(begin)
        encoder.register_forward_hook(end)

    def _options(self) -> dict[str, Any]:
        case = self._loading.case
        if not case.greedy:
            return {}
        bound = {} if case.budget is None else {"max_new_tokens": case.budget}
        return bound | {"num_beams": 1, "do_sample": False, "return_timestamps": False}


if __name__ == "__main__":
    answer_orders(Transformers)
