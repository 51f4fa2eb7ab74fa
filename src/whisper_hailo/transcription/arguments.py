"""Keyword arguments of `Transcriber`, merged into the options that they set.

`typed_arguments.py` has their types, for type checkers and editors.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import AudioSource
from whisper_hailo.audio.stream import Samples
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.partial_options import from_keywords, refuse_unknown
from whisper_hailo.core.process import check_threads
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.speakers.options import AUTO, SpeakerOptions
from whisper_hailo.transcription.longform.options import STRATEGIES, LongOptions
from whisper_hailo.transcription.schedule import Progress

logger = logging.getLogger(__name__)

CONVERT_FIELDS: Final = ("quantize", "encoder_quantize", "half")
"""Fields of `ConvertOptions` that are keywords of `from_model`."""

_UNSUPPORTED: Final[Mapping[str, str]] = {
    "vad_filter": 'give long="vad"',
    "without_timestamps": "give timestamps=True or False",
    "chunk_length": "give window_s to from_model",
    "verbose": "give progress, a function of seconds done and seconds in all",
    "compute_type": 'give quantize: "auto", "none" (float32), "int8" or "int4"',
    "device": 'give encoder_backend: "auto", "onnx" (the CPU) or "hailo"',
    "download_root": "set WHISPER_HAILO_CACHE",
    "local_files_only": "set HF_HUB_OFFLINE=1",
}
"""Keywords of OpenAI Whisper and faster-whisper that are not supported, with advice."""

_IGNORED: Final[Mapping[str, str]] = {
    "hallucination_silence_threshold": "silence gives no text",
    "prepend_punctuations": "marks join words as in OpenAI Whisper",
    "append_punctuations": "marks join words as in OpenAI Whisper",
    "language_detection_threshold": "the windows with speech decide the language",
    "language_detection_segments": "the windows with speech decide the language",
    "fp16": "quantize of from_model decides the number format",
    "device_index": "a free chip is taken",
    "num_workers": "transcribe_many decodes several recordings together",
}
"""Keywords of theirs without which the text is as good, and why."""

_TRANSLATIONS: Final[Mapping[tuple[str, object], Mapping[str, Any]]] = {
    ("vad_filter", True): {"strategy": "vad"},
    ("vad_filter", False): {},
    ("language", None): {"language": AUTO_LANGUAGE},
    ("without_timestamps", True): {"timestamps": False},
    ("without_timestamps", False): {"timestamps": True},
    ("compute_type", "auto"): {},
    ("compute_type", "default"): {},
    ("compute_type", "int8"): {"quantize": "int8"},
    ("compute_type", "int8_float32"): {"quantize": "int8"},
    ("compute_type", "int8_float16"): {"quantize": "int8"},
    ("compute_type", "int8_bfloat16"): {"quantize": "int8"},
    # The nearest of ours is exact: a processor computes float16 in float32, too.
    ("compute_type", "float16"): {"quantize": "none"},
    ("compute_type", "bfloat16"): {"quantize": "none"},
    ("compute_type", "int16"): {"quantize": "none"},
    ("compute_type", "float32"): {"quantize": "none"},
    ("device", "auto"): {},
    ("device", "cpu"): {"encoder_backend": "onnx"},
    ("multilingual", True): {"detect_each_window": True},
    ("multilingual", False): {},
    ("verbose", False): {},
    ("verbose", None): {},
    ("local_files_only", False): {},
    ("download_root", None): {},
    ("chunk_length", None): {},
}
"""Values of others' keywords that are supported, with our keywords for them."""

_VAD_PARAMETERS: Final[Mapping[str, tuple[str, float]]] = {
    "threshold": ("vad_threshold", 1.0),
    "min_silence_duration_ms": ("min_silence_s", 0.001),
    "speech_pad_ms": ("speech_pad_s", 0.001),
}
"""Entries of faster-whisper's `vad_parameters`, with our keywords and factors."""

_OTHER_VAD_PARAMETERS: Final = (
    "neg_threshold",
    "min_speech_duration_ms",
    "max_speech_duration_s",
    "min_silence_at_max_speech",
    "use_max_poss_sil_at_max_speech",
)
"""Entries that change nothing here: windows are cut by pauses, not by the length of speech."""


def merge_transcribe_kwargs(
    options: DecodingOptions, keywords: Mapping[str, Any]
) -> tuple[DecodingOptions, LongOptions, Progress | None]:
    """Apply keywords of `transcribe` to options; the callback is that of `log_progress=True`.

    Raises:
        OptionError: an unknown keyword, or a value of another type or out of range.
    """
    ours = _translate(keywords)
    long = ours.pop("long", None) or LongOptions()
    if isinstance(long, str):
        ours.setdefault("strategy", long)
        long = LongOptions()
    logs_progress = ours.pop("log_progress", False)
    if not isinstance(logs_progress, bool):
        raise OptionError(f"log_progress is {logs_progress!r}, expected True or False")
    if "temperature" in ours:
        ours["temperatures"] = ours.pop("temperature")
    hotwords = ours.get("hotwords")
    if isinstance(hotwords, list | tuple):
        ours["hotwords"] = _join_hotwords(hotwords)
    if not isinstance(options, DecodingOptions):
        got = type(options).__name__
        raise OptionError(f"options is a {got}, expected DecodingOptions(...)")
    if not isinstance(long, LongOptions):
        got = type(long).__name__
        raise OptionError(
            f"long is a {got}, expected LongOptions(...) or one of: {', '.join(STRATEGIES)}"
        )
    decoding_changes = from_keywords(DecodingOptions, ours)
    long_changes = from_keywords(LongOptions, ours)
    refuse_unknown(ours, _UNSUPPORTED, DecodingOptions, LongOptions, SpeakerOptions)
    return (
        decoding_changes.apply_to(options),
        long_changes.apply_to(long),
        _log_progress if logs_progress else None,
    )


def merge_speaker_kwargs(keywords: dict[str, Any]) -> SpeakerOptions:
    """Move the keywords of `SpeakerOptions` out of others; `speakers` may be a number, or True.

    Raises:
        OptionError: a value of another type or out of range.
    """
    speakers = keywords.get("speakers")
    if isinstance(speakers, SpeakerOptions):
        del keywords["speakers"]
        return speakers
    if isinstance(speakers, bool):
        keywords["speakers"] = AUTO if speakers else None
    elif isinstance(speakers, int):
        keywords["speakers"] = str(speakers)
    return from_keywords(SpeakerOptions, keywords).build()


def merge_model_kwargs(
    convert: ConvertOptions | None,
    engine: EngineOptions | None,
    threads: int,
    keywords: Mapping[str, Any],
) -> tuple[ConvertOptions, EngineOptions, int]:
    """Apply keywords of `from_model` to options; `cpu_threads` counts where `threads` is 0.

    Raises:
        OptionError: an unknown keyword, or a value of another type or out of range.
    """
    ours = _translate(keywords)
    cpu_threads = ours.pop("cpu_threads", 0)
    threads = check_threads(threads or cpu_threads)
    engine_changes = from_keywords(EngineOptions, ours)
    convert_changes = from_keywords(ConvertOptions, ours, CONVERT_FIELDS)
    refuse_unknown(ours, _UNSUPPORTED, EngineOptions, ConvertOptions)
    return (
        convert_changes.apply_to(convert or ConvertOptions()),
        engine_changes.apply_to(engine or EngineOptions()),
        threads,
    )


def _translate(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords with our names for others'; ours take precedence."""
    ours: dict[str, Any] = {}
    translated: dict[str, Any] = {}
    for name, value in keywords.items():
        # Numbers are left out: 1 equals True.
        if isinstance(value, str | bool | None) and (name, value) in _TRANSLATIONS:
            translated.update(_TRANSLATIONS[name, value])
        elif name == "vad_parameters":
            translated.update(_translate_vad_parameters(value))
        elif name in _IGNORED:
            if value is not None:
                logger.warning("%s has no effect here: %s", name, _IGNORED[name])
        else:
            ours[name] = value
    return {**translated, **ours}


def _translate_vad_parameters(parameters: Any) -> dict[str, float]:  # noqa: ANN401 - of any type
    """Return our keywords for faster-whisper's `vad_parameters`, a dictionary or its dataclass."""
    if is_dataclass(parameters) and not isinstance(parameters, type):
        parameters = asdict(parameters)
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise OptionError(
            f"vad_parameters is {parameters!r}, expected a dictionary such as "
            '{"threshold": 0.5}'
        )
    keywords = {}
    for name, value in parameters.items():
        if name in _OTHER_VAD_PARAMETERS:
            logger.info("vad_parameters: %s has no effect here", name)
            continue
        if name not in _VAD_PARAMETERS or not isinstance(value, int | float):
            raise OptionError(
                f"vad_parameters has {name} = {value!r}, expected numbers for: "
                f"{', '.join(_VAD_PARAMETERS)}"
            )
        keyword, factor = _VAD_PARAMETERS[name]
        keywords[keyword] = float(value * factor)
    return keywords


def _join_hotwords(words: Sequence[Any]) -> str | None:
    """Return a list of phrases as the option is typed; a comma ends a single one of two words."""
    for word in words:
        if not isinstance(word, str):
            raise OptionError(f"hotwords has {word!r}, expected text")
    if not words:
        return None
    return ", ".join(words) + ","


def _log_progress(done_s: float, duration_s: float | None) -> None:
    total = "" if duration_s is None else f" of {duration_s:.0f} s"
    logger.info("%.0f s%s", done_s, total)


def with_sample_rate(audio: AudioSource, sample_rate: int | None) -> AudioSource:
    """Return samples with their rate; a file has its own.

    Raises:
        OptionError: a rate for a file, or one that is no whole number.
    """
    if sample_rate is None:
        return audio
    if not isinstance(audio, np.ndarray):
        raise OptionError(
            "sample_rate belongs to an array; a file says its own, leave it out"
        )
    if sample_rate == SAMPLE_RATE_HZ:
        return audio
    if not isinstance(sample_rate, int):
        raise OptionError(
            f"sample_rate is {sample_rate!r}, expected a whole number of Hz"
        )
    return Samples(audio, sample_rate)
