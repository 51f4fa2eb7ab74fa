"""This project through its `Transcriber`, with the settings of a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.types import FloatArray, Transcript
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    TokenLimits,
    preset_of,
)
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.systems.protocol import ComponentWatch, Loading, SystemResult
from whisper_hailo_lab.wrappers import ZeroRows

STUDY_MARGIN_S: Final = 1.0
"""Free end of a window in the study."""

WATCHED: Final = ("open", "encode", "encode_async", "start", "step")
"""Methods of encoder and decoder in which memory may grow."""

ENGINE_PATHS: Final = ("encoder", "decoder", "decoder_assets", "tokenizer")
ENGINE_BACKENDS: Final = ("encoder_backend", "decoder_backend")


class Ours:
    """The pipeline with the settings of a case.

    Settings: `window_s`, `quantize`, `encoder_quantize`, `half`, `preset`, `pad_to`,
    `pad_with`, `repetition_penalty`, `eot_boost`, `no_repeat_ngram`; `trim_window` as in
    `transcribe`; `vad` transcribes speech only,
    `zero_rows` pads with as many real rows of zeros in place of the free padding; `hailo_window_s`
    and `hailo_length` also convert the fixed forms; `encoder`, `decoder`, `encoder_backend`,
    `decoder_backend` and `decoder_assets` as in `transcribe`.
    """

    packages = ("whisper-hailo", "onnxruntime", "numpy", "tokenizers")

    def __init__(self, loading: Loading) -> None:
        case = loading.case
        settings = case.settings
        self._transcriber = Transcriber.from_model(
            loading.path,
            convert=convert_options(settings),
            window_s=settings.get("window_s"),
            margin_s=STUDY_MARGIN_S if case.row == "study" else None,
            threads=case.threads,
            engine=engine_options(settings),
        )
        default = (
            DecodingOptions() if case.greedy else self._transcriber.default_options
        )
        self._options = replace(
            default,
            language=case.language,
            anti_repetition=anti_repetition(
                settings, self._transcriber.default_anti_repetition
            ),
            limits=token_limits(settings, default.limits),
            max_new_tokens=case.budget,
        )
        self._zero_rows: int = settings.get("zero_rows", 0)
        # In the other rows every system has the same work, silence included.
        self._long = LongOptions(
            skip_silence=case.row == "default", trim_window=settings.get("trim_window")
        )
        if settings.get("vad"):
            self._long = LongOptions(strategy="vad")

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load encoder and decoder, each watched."""
        self._transcriber.check(self._options)
        with self._watched(watch):
            self._transcriber.open()
        self._runner = self._transcriber
        if self._zero_rows:
            encoder = ZeroRows(self._transcriber.encoder, self._zero_rows)
            self._runner = replace(self._transcriber, encoder=encoder)
        settings = self._transcriber.settings(self._options)
        return {name: getattr(settings, name) for name in settings.__slots__}

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        """Transcribe once, with the calls of encoder and decoder watched."""
        with self._watched(watch):
            self._runner.transcribe(audio, self._options, long=self._long)

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return text and stage times of the pipeline's own clock."""
        options = replace(self._options, language=language)
        return _result_of(self._runner.transcribe(audio, options, long=self._long))

    def close(self) -> None:
        """Release the model."""
        self._transcriber.close()

    @contextmanager
    def _watched(self, watch: ComponentWatch) -> Iterator[None]:
        """Pass every watched call through `watch` inside the block."""
        with ExitStack() as stack:
            _watch_part("encoder", self._transcriber.encoder, watch, stack)
            _watch_part("decoder", self._transcriber.decoder, watch, stack)
            yield


def _watch_part(
    name: str,
    part: object,
    watch: ComponentWatch,
    stack: ExitStack,
) -> None:
    """Pass the watched methods of one object through `watch` until the stack unwinds."""
    for method in WATCHED:
        if hasattr(part, method):
            # An attribute of the object hides the method of its class.
            setattr(part, method, _watched_call(name, getattr(part, method), watch))
            stack.callback(delattr, part, method)


def _watched_call(
    name: str, original: Callable[..., Any], watch: ComponentWatch
) -> Callable[..., Any]:
    def call(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the method
        return watch(name, lambda: original(*args, **keywords))

    return call


def convert_options(settings: dict[str, Any]) -> ConvertOptions:
    """Return the options by which the checkpoint of a case is converted."""
    window_s = settings.get("hailo_window_s")
    length = settings.get("hailo_length")
    hailo = HailoOptions(window_s, length) if window_s or length else None
    return ConvertOptions(
        quantize=settings.get("quantize", "none"),
        encoder_quantize=settings.get("encoder_quantize", "none"),
        hailo=hailo,
        half=settings.get("half"),
    )


def engine_options(settings: dict[str, Any]) -> EngineOptions:
    """Return the options that choose encoder and decoder of a case."""
    options: dict[str, Any] = {}
    for name in ENGINE_PATHS:
        if settings.get(name):
            options[name] = Path(settings[name])
    for name in ENGINE_BACKENDS:
        if settings.get(name):
            options[name] = str(settings[name])
    return EngineOptions(**options)


def anti_repetition(
    settings: dict[str, Any], default: AntiRepetition
) -> AntiRepetition:
    """Return the preset of a case, or the engine's default, with the case's own values."""
    base = preset_of(settings["preset"]) if "preset" in settings else default
    # Rows of zeros are the encoder's; the decoder adds none.
    pad_to = 0 if settings.get("zero_rows") else base.pad_to
    return AntiRepetition(
        pad_to=settings.get("pad_to", pad_to),
        pad_with=settings.get("pad_with", base.pad_with),
        repetition_penalty=settings.get("repetition_penalty", base.repetition_penalty),
        eot_boost=settings.get("eot_boost", base.eot_boost),
    )


def token_limits(settings: dict[str, Any], default: TokenLimits) -> TokenLimits:
    """Return the limits of the tokens of a case."""
    length = settings.get("no_repeat_ngram", default.no_repeat_ngram)
    return replace(default, no_repeat_ngram=length)


def _result_of(transcript: Transcript) -> SystemResult:
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
