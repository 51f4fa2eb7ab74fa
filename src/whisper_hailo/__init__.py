"""Whisper speech-to-text with the encoder on a Hailo NPU or the CPU and a cached CPU decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whisper_hailo.core.process import keep_private
from whisper_hailo.core.version import __version__

keep_private()  # first: every program of ours comes through here before it imports a library

if TYPE_CHECKING:
    from whisper_hailo.backends.options import ChipOptions, EngineOptions
    from whisper_hailo.convert.options import ConvertOptions, HailoOptions
    from whisper_hailo.core.errors import (
        AudioError,
        DeviceError,
        HubError,
        ModelError,
        OptionError,
        OutputError,
        WhisperHailoError,
    )
    from whisper_hailo.core.types import Segment, Settings, Timings, Transcript, Word
    from whisper_hailo.decoding.options import (
        AntiRepetition,
        DecodingOptions,
        PromptOptions,
        SearchOptions,
        Thresholds,
        TokenLimits,
        WordOptions,
    )
    from whisper_hailo.live.options import CaptionOptions
    from whisper_hailo.live.stream import BlockCaptions, stream, stream_async
    from whisper_hailo.text.outputs import as_json, json_schema, render
    from whisper_hailo.text.subtitles import Layout
    from whisper_hailo.transcription.longform.plan import LongOptions
    from whisper_hailo.transcription.run import Segments
    from whisper_hailo.transcription.transcriber import Transcriber
    from whisper_hailo.transcription.window_cache import Journal

__all__ = [
    "AntiRepetition",
    "AudioError",
    "BlockCaptions",
    "CaptionOptions",
    "ChipOptions",
    "ConvertOptions",
    "DecodingOptions",
    "DeviceError",
    "EngineOptions",
    "HailoOptions",
    "HubError",
    "Journal",
    "Layout",
    "LongOptions",
    "ModelError",
    "OptionError",
    "OutputError",
    "PromptOptions",
    "SearchOptions",
    "Segment",
    "Segments",
    "Settings",
    "Thresholds",
    "Timings",
    "TokenLimits",
    "Transcriber",
    "Transcript",
    "WhisperHailoError",
    "Word",
    "WordOptions",
    "__version__",
    "as_json",
    "json_schema",
    "render",
    "stream",
    "stream_async",
]

_HOMES = {
    "AntiRepetition": "whisper_hailo.decoding.options",
    "AudioError": "whisper_hailo.core.errors",
    "BlockCaptions": "whisper_hailo.live.stream",
    "CaptionOptions": "whisper_hailo.live.options",
    "ChipOptions": "whisper_hailo.backends.options",
    "ConvertOptions": "whisper_hailo.convert.options",
    "DecodingOptions": "whisper_hailo.decoding.options",
    "DeviceError": "whisper_hailo.core.errors",
    "EngineOptions": "whisper_hailo.backends.options",
    "HailoOptions": "whisper_hailo.convert.options",
    "HubError": "whisper_hailo.core.errors",
    "Journal": "whisper_hailo.transcription.window_cache",
    "Layout": "whisper_hailo.text.subtitles",
    "LongOptions": "whisper_hailo.transcription.longform.plan",
    "ModelError": "whisper_hailo.core.errors",
    "OptionError": "whisper_hailo.core.errors",
    "OutputError": "whisper_hailo.core.errors",
    "PromptOptions": "whisper_hailo.decoding.options",
    "SearchOptions": "whisper_hailo.decoding.options",
    "Segment": "whisper_hailo.core.types",
    "Segments": "whisper_hailo.transcription.run",
    "Settings": "whisper_hailo.core.types",
    "Thresholds": "whisper_hailo.decoding.options",
    "Timings": "whisper_hailo.core.types",
    "TokenLimits": "whisper_hailo.decoding.options",
    "Transcriber": "whisper_hailo.transcription.transcriber",
    "Transcript": "whisper_hailo.core.types",
    "WhisperHailoError": "whisper_hailo.core.errors",
    "Word": "whisper_hailo.core.types",
    "WordOptions": "whisper_hailo.decoding.options",
    "as_json": "whisper_hailo.text.outputs",
    "json_schema": "whisper_hailo.text.outputs",
    "render": "whisper_hailo.text.outputs",
    "stream": "whisper_hailo.live.stream",
    "stream_async": "whisper_hailo.live.stream",
}


def __dir__() -> list[str]:
    """The interface: what is documented and stays."""
    return list(__all__)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import the public names when they are first used: `--help` must not wait for the runtime."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
