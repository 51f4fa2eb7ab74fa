"""Keyword arguments of `Transcriber`, and the options that they set."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict

import numpy as np

from whisper_hailo.audio import AudioSource
from whisper_hailo.audio.stream import Samples
from whisper_hailo.backends.options import ChipOptions, ChipPriority, EngineOptions
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.partial_options import from_keywords, refuse_unknown
from whisper_hailo.core.process import check_threads
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
)
from whisper_hailo.transcription.longform.options import STRATEGIES, Clip, LongOptions
from whisper_hailo.transcription.schedule import Progress

logger = logging.getLogger(__name__)


class ModelKwargs(TypedDict, total=False):
    """Keywords of `Transcriber.from_model`: fields of `EngineOptions` and `ConvertOptions`."""

    encoder: Path | str | None
    decoder: Path | str | None
    encoder_backend: str
    decoder_backend: str
    decoder_assets: Path | str | None
    tokenizer: Path | str | None
    hailo: ChipOptions
    share: bool
    priority: ChipPriority
    timeout_s: float
    device_timeout: float
    open_timeout_s: float
    quantize: str
    encoder_quantize: str
    half: bool | None
    # Of faster-whisper
    compute_type: str
    device: str
    cpu_threads: int


class TranscribeKwargs(TypedDict, total=False):
    """Keywords of `Transcriber.transcribe`: fields of `DecodingOptions` and `LongOptions`."""

    long: LongOptions | str | None
    batch_size: int | None
    sample_rate: int | None
    language: str | None
    task: str
    anti_repetition: AntiRepetition | str
    preset: str
    pad_to: int | None
    pad_with: str
    repetition_penalty: float
    eot_boost: float
    max_new_tokens: int | None
    timestamps: bool
    max_initial_timestamp_s: float | None
    max_initial_timestamp: float | None
    detect_each_window: bool
    search: SearchOptions
    temperatures: Sequence[float]
    temperature: float | Sequence[float]
    beam_size: int
    retry_beam_size: int
    patience: float
    length_penalty: float | None
    best_of: int
    seed: int
    thresholds: Thresholds
    no_speech: float | None
    no_speech_threshold: float | None
    logprob: float | None
    logprob_threshold: float | None
    log_prob_threshold: float | None
    compression_ratio: float | None
    compression_ratio_threshold: float | None
    limits: TokenLimits
    suppress: Sequence[int] | None
    suppress_tokens: Sequence[int] | str | None
    suppress_blank: bool
    no_repeat_ngram: int
    no_repeat_ngram_size: int
    max_per_second: float | None
    max_tokens_per_second: float | None
    prompts: PromptOptions
    initial_prompt: str | None
    prompt: str | None
    prefix: str | None
    hotwords: str | None
    condition_on_previous_text: bool
    carry_initial_prompt: bool
    word_timestamps: bool
    strategy: str
    overlap_s: float | None
    overlap: float | None
    clips: Sequence[Clip]
    clip_timestamps: Sequence[float] | str
    skip_silence: bool
    vad_threshold: float
    min_silence_s: float
    vad_min_silence: float
    speech_pad_s: float
    vad_speech_pad: float
    trim_window: bool | None
    # Of faster-whisper
    vad_filter: bool
    without_timestamps: bool
    log_progress: bool


_OF_CONVERSION: Final = ("quantize", "encoder_quantize", "half")

_PEERS: Final[Mapping[str, str]] = {
    "vad_filter": 'give long="vad"',
    "without_timestamps": "give timestamps=True or False",
    "hallucination_silence_threshold": "leave it out: silence gives no text",
    "prepend_punctuations": "leave it out: marks join words as in OpenAI Whisper",
    "append_punctuations": "leave it out: marks join words as in OpenAI Whisper",
    "vad_parameters": "give vad_threshold, min_silence_s and speech_pad_s",
    "multilingual": "give detect_each_window=True",
    "language_detection_threshold": "leave it out: the first window tells the language",
    "language_detection_segments": "leave it out: the first window tells the language",
    "chunk_length": "give window_s to from_model",
    "verbose": "give progress, a function of seconds done and seconds in all",
    "fp16": 'leave it out, or give quantize to from_model: "auto", "none", "int8", "int4"',
    "compute_type": 'give quantize: "auto", "none" (float32), "int8" or "int4"',
    "device": 'give encoder_backend: "auto", "onnx" (the CPU) or "hailo"',
    "device_index": "leave it out: the chip that is free is taken",
    "num_workers": "give batch_size to transcribe_many",
    "download_root": "set WHISPER_HAILO_CACHE",
    "local_files_only": "set HF_HUB_OFFLINE=1",
}
"""Keywords of OpenAI Whisper and faster-whisper that are not supported, with advice."""

_MEANT: Final[Mapping[tuple[str, object], Mapping[str, Any]]] = {
    ("vad_filter", True): {"strategy": "vad"},
    ("vad_filter", False): {},
    ("language", None): {"language": AUTO_LANGUAGE},
    ("without_timestamps", True): {"timestamps": False},
    ("without_timestamps", False): {"timestamps": True},
    ("compute_type", "auto"): {},
    ("compute_type", "default"): {},
    ("compute_type", "int8"): {"quantize": "int8"},
    ("compute_type", "float32"): {"quantize": "none"},
    ("device", "auto"): {},
    ("device", "cpu"): {"encoder_backend": "onnx"},
}
"""Values of their keywords that are supported, with our keywords for them."""


def merge_transcribe_kwargs(
    options: DecodingOptions, keywords: Mapping[str, Any]
) -> tuple[DecodingOptions, LongOptions, Progress | None]:
    """Apply keywords of `transcribe` to options; the callback is that of `log_progress=True`."""
    keywords = _as_ours(keywords)
    long: LongOptions | str | None = keywords.pop("long", None)
    if isinstance(long, str):
        keywords, long = {"strategy": long, **keywords}, None
    logs = keywords.pop("log_progress", False)
    if not isinstance(logs, bool):
        raise OptionError(f"log_progress is {logs!r}, expected True or False")
    if "temperature" in keywords:
        keywords["temperatures"] = keywords.pop("temperature")
    names = f"long is {', '.join(STRATEGIES)}, or"
    for given, kind, what in (
        (options, DecodingOptions, "options"), (long or LongOptions(), LongOptions, names)
    ):  # fmt: skip
        if not isinstance(given, kind):
            got = type(given).__name__
            raise OptionError(f"{what} is a {got}, expected {kind.__name__}(...)")
    decoding = from_keywords(DecodingOptions, keywords)
    cut = from_keywords(LongOptions, keywords)
    refuse_unknown(keywords, _PEERS, DecodingOptions, LongOptions)
    return (
        decoding.apply_to(options),
        cut.apply_to(long or LongOptions()),
        _log_progress if logs else None,
    )


def merge_model_kwargs(
    convert: ConvertOptions | None,
    engine: EngineOptions | None,
    threads: int,
    keywords: Mapping[str, Any],
) -> tuple[ConvertOptions, EngineOptions, int]:
    """Apply keywords of `from_model` to options; `cpu_threads` counts where `threads` is 0."""
    keywords = _as_ours(keywords)
    threads = check_threads(threads or keywords.pop("cpu_threads", 0))
    of_engine = from_keywords(EngineOptions, keywords)
    of_convert = from_keywords(ConvertOptions, keywords, _OF_CONVERSION)
    refuse_unknown(keywords, _PEERS, EngineOptions, ConvertOptions)
    convert = of_convert.apply_to(convert or ConvertOptions())
    engine = of_engine.apply_to(engine or EngineOptions())
    return convert, engine, threads


def _as_ours(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Replace others' keywords by ours, which take precedence."""
    ours, meant = dict(keywords), dict[str, Any]()
    for name, value in keywords.items():
        if isinstance(value, str | bool | None) and (name, value) in _MEANT:
            meant |= _MEANT[name, ours.pop(name)]
    return meant | ours


def _log_progress(done_s: float, duration_s: float | None) -> None:
    logger.info("%.0f s%s", done_s, "" if duration_s is None else f" of {duration_s:.0f} s")


def with_sample_rate(audio: AudioSource, sample_rate: int | None) -> AudioSource:
    """Return samples with their rate; a file has its own."""
    if sample_rate is None or (sample_rate == SAMPLE_RATE_HZ and isinstance(audio, np.ndarray)):
        return audio
    if not isinstance(audio, np.ndarray):
        raise OptionError("sample_rate belongs to an array; a file says its own, leave it out")
    if not isinstance(sample_rate, int):
        raise OptionError(f"sample_rate is {sample_rate!r}, expected a whole number of Hz")
    return Samples(audio, sample_rate)
