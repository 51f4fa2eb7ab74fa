"""This project, through `Transcriber`, with the settings of a case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.types import FloatArray, Transcript
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions, preset_of
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.systems.protocol import ComponentWatch, Loading, SystemResult

MARGINS_S: Final = {"study": 1.0, "forced": 0.0}
"""Rows whose windows are not cut as usual: the study kept a second free, `forced` fills all."""

WATCHED: Final = ("open", "encode", "encode_async", "start", "step")
"""Calls of the two halves in which memory may grow."""

ENGINE_PATHS: Final = ("encoder", "decoder", "decoder_assets", "tokenizer")
ENGINE_BACKENDS: Final = ("encoder_backend", "decoder_backend")


class Ours:
    """The pipeline with the settings of a case.

    Settings: `window_s`, `quantize`, `encoder_quantize`, `half`, `preset`, `pad_to`,
    `repetition_penalty`, `eot_boost`; `hailo_window_s` and `hailo_length` also convert the fixed
    forms; `encoder`, `decoder`, `encoder_backend`, `decoder_backend` and `decoder_assets`
    as in `transcribe`.
    """

    packages = ("whisper-hailo", "onnxruntime", "numpy", "tokenizers")

    def __init__(self, loading: Loading) -> None:
        case, given = loading.case, loading.case.settings
        self._transcriber = Transcriber.from_model(
            loading.path,
            convert=conversion(given),
            window_s=given.get("window_s"),
            margin_s=MARGINS_S.get(case.row),
            threads=case.threads,
            engine=engine(given),
        )
        common = DecodingOptions() if case.greedy else self._transcriber.default_options
        self._options = replace(
            common,
            language=case.language,
            anti_repetition=anti_repetition(given, self._transcriber.default_anti_repetition),
            max_new_tokens=case.budget,
        )
        # The other rows give every system the same work, silence included.
        self._long = LongOptions(skip_silence=case.row == "default")

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load both halves, each watched."""
        self._transcriber.check(self._options)
        with self._watched(watch):
            self._transcriber.open()
        settings = self._transcriber.settings(self._options)
        return {name: getattr(settings, name) for name in settings.__slots__}

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        """One run with the calls of both halves watched."""
        with self._watched(watch):
            self._transcriber.transcribe(audio, self._options, long=self._long)

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Text and stage times of the pipeline's own clock."""
        options = replace(self._options, language=language)
        return _heard(self._transcriber.transcribe(audio, options, long=self._long))

    def close(self) -> None:
        self._transcriber.close()

    @contextmanager
    def _watched(self, watch: ComponentWatch) -> Iterator[None]:
        """Every call of a half goes through `watch` meanwhile."""
        with ExitStack() as stack:
            parts = {"encoder": self._transcriber.encoder, "decoder": self._transcriber.decoder}
            for name, part in parts.items():
                for method in WATCHED:
                    if hasattr(part, method):
                        _wrap(part, name, method, watch, stack)
            yield


def _wrap(part: object, name: str, method: str, watch: ComponentWatch, stack: ExitStack) -> None:
    """Replace a method of one object until the stack unwinds."""
    original = getattr(part, method)

    def watched(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the method
        return watch(name, lambda: original(*args, **keywords))

    setattr(part, method, watched)
    stack.callback(delattr, part, method)


def conversion(given: dict[str, Any]) -> ConvertOptions:
    """How the checkpoint of a case is converted."""
    window_s, length = given.get("hailo_window_s"), given.get("hailo_length")
    return ConvertOptions(
        quantize=given.get("quantize", "none"),
        encoder_quantize=given.get("encoder_quantize", "none"),
        hailo=HailoOptions(window_s, length) if window_s or length else None,
        half=given.get("half"),
    )


def engine(given: dict[str, Any]) -> EngineOptions:
    """Which encoder and decoder a case's settings ask for."""
    paths = {name: Path(given[name]) for name in ENGINE_PATHS if given.get(name)}
    backends = {name: str(given[name]) for name in ENGINE_BACKENDS if given.get(name)}
    chosen: dict[str, Any] = {**paths, **backends}
    return EngineOptions(**chosen)


def anti_repetition(given: dict[str, Any], default: AntiRepetition) -> AntiRepetition:
    """The preset of a case's settings, or the engine's own, with whatever else they say."""
    chosen = preset_of(given["preset"]) if "preset" in given else default
    return AntiRepetition(
        pad_to=given.get("pad_to", chosen.pad_to),
        repetition_penalty=given.get("repetition_penalty", chosen.repetition_penalty),
        eot_boost=given.get("eot_boost", chosen.eot_boost),
    )


def _heard(transcript: Transcript) -> SystemResult:
    timings = transcript.timings
    return SystemResult(
        text=transcript.text,
        stages_ms={
            "mel": timings.mel_ms,
            "encode": timings.encode_ms,
            "cross_kv": timings.cross_kv_ms,
            "decode": timings.decode_ms,
        },
        n_tokens=sum(len(segment.tokens) for segment in transcript.segments),
        runaway=any(segment.runaway for segment in transcript.segments),
    )
