"""What a Python program asks for by names, put on the options that it is about."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import AudioSource, Samples
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.partial_options import from_keywords, refuse_unknown
from whisper_hailo.core.processor import checked_threads
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import STRATEGIES, LongOptions
from whisper_hailo.transcription.schedule import Progress

logger = logging.getLogger(__name__)

_OF_CONVERSION: Final = ("quantize", "encoder_quantize", "half")

_PEERS: Final[Mapping[str, str]] = {
    "vad_filter": 'give long="vad"',
    "without_timestamps": "give timestamps=True or False",
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
"""Names of OpenAI Whisper and faster-whisper that stand for nothing here."""

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
"""Values of such names that do stand for something."""


def _as_ours(names: Mapping[str, Any]) -> dict[str, Any]:
    """Names and values of others in ours, where they stand for some; ours go before them."""
    meant: dict[str, Any] = {}
    left: dict[str, Any] = {}
    for name, value in names.items():
        means = _MEANT.get((name, value)) if isinstance(value, str | bool | None) else None
        if means is None:
            left[name] = value
        else:
            meant |= means
    return meant | left


class Asked:
    """How recordings are to be transcribed.

    Args:
        options: that names are put on.
        long: likewise; the name of a strategy stands for its options.
        names: of `transcribe`.

    Attributes:
        options: with the names.
        long: likewise.
        progress: what `log_progress=True` asks for, as of faster-whisper; `None` where nobody does.

    Raises:
        OptionError: a name that there is not, or a value of a wrong type or out of range.
    """

    def __init__(
        self, options: DecodingOptions, long: LongOptions | str | None, names: dict[str, Any]
    ) -> None:
        if isinstance(long, str):
            names, long = {"strategy": long, **names}, None
        names = _as_ours(names)
        logs = names.pop("log_progress", False)
        if not isinstance(logs, bool):
            raise OptionError(f"log_progress is {logs!r}, expected True or False")
        self.progress: Progress | None = _log if logs else None
        if "temperature" in names:
            names["temperatures"] = names.pop("temperature")
        _expect(options, DecodingOptions, "options")
        _expect(long or LongOptions(), LongOptions, f"long is {', '.join(STRATEGIES)}, or")
        decoding, cut = from_keywords(DecodingOptions, names), from_keywords(LongOptions, names)
        refuse_unknown(names, _PEERS, DecodingOptions, LongOptions)
        self.options = decoding.on(options)
        self.long = cut.on(long)


def _log(done_s: float, duration_s: float | None) -> None:
    """How far a recording is, to who listens to the package's log."""
    logger.info("%.0f s%s", done_s, "" if duration_s is None else f" of {duration_s:.0f} s")


class AskedModel:
    """Which model is to be run, and how.

    Args:
        convert: that names are put on; `None` is the defaults.
        engine: likewise.
        threads: per operator; 0 may be `cpu_threads` among the names, as of faster-whisper.
        names: of `from_model`.

    Attributes:
        convert: with the names.
        engine: likewise.
        threads: likewise.
    """

    def __init__(
        self,
        convert: ConvertOptions | None,
        engine: EngineOptions | None,
        threads: int,
        names: dict[str, Any],
    ) -> None:
        names = _as_ours(names)
        elsewhere = names.pop("cpu_threads", 0)
        self.threads = checked_threads(threads or elsewhere)
        of_engine = from_keywords(EngineOptions, names)
        of_convert = from_keywords(ConvertOptions, names, _OF_CONVERSION)
        refuse_unknown(names, _PEERS, EngineOptions, ConvertOptions)
        self.convert = of_convert.on(convert)
        self.engine = of_engine.on(engine)


def at_rate(audio: AudioSource, sample_rate: int | None) -> AudioSource:
    """Samples with their rate.

    Raises:
        OptionError: a rate of something that tells its own.
    """
    if sample_rate is None or (sample_rate == SAMPLE_RATE_HZ and isinstance(audio, np.ndarray)):
        return audio
    if not isinstance(audio, np.ndarray):
        raise OptionError("sample_rate belongs to an array; a file says its own, leave it out")
    if not isinstance(sample_rate, int):
        raise OptionError(f"sample_rate is {sample_rate!r}, expected a whole number of Hz")
    return Samples(audio, sample_rate)


def _expect(value: object, kind: type[Any], what: str) -> None:
    if not isinstance(value, kind):
        raise OptionError(f"{what} is a {type(value).__name__}, expected {kind.__name__}(...)")
