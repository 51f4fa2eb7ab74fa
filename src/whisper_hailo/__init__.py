"""Whisper speech-to-text with the encoder on a Hailo NPU or the CPU and a cached CPU decoder."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.process import keep_private
from whisper_hailo.core.version import __version__ as __version__

keep_private()  # before any library is imported: each reads its switches then

if TYPE_CHECKING:
    from whisper_hailo.backends.options import (
        ChipOptions as ChipOptions,
        EngineOptions as EngineOptions,
    )
    from whisper_hailo.convert.options import (
        ConvertOptions as ConvertOptions,
        HailoOptions as HailoOptions,
    )
    from whisper_hailo.core.errors import (
        AudioError as AudioError,
        DeviceError as DeviceError,
        HubError as HubError,
        ModelError as ModelError,
        OptionError as OptionError,
        OutputError as OutputError,
        WhisperHailoError as WhisperHailoError,
    )
    from whisper_hailo.core.types import (
        Segment as Segment,
        Settings as Settings,
        Timings as Timings,
        Transcript as Transcript,
        Word as Word,
    )
    from whisper_hailo.decoding.options import (
        AntiRepetition as AntiRepetition,
        DecodingOptions as DecodingOptions,
        PromptOptions as PromptOptions,
        SearchOptions as SearchOptions,
        Thresholds as Thresholds,
        TokenLimits as TokenLimits,
    )
    from whisper_hailo.live.options import CaptionOptions as CaptionOptions
    from whisper_hailo.live.stream import (
        BlockCaptions as BlockCaptions,
        stream as stream,
    )
    from whisper_hailo.text.formats import render as render
    from whisper_hailo.text.subtitles import Layout as Layout
    from whisper_hailo.text.transcript_json import (
        as_json as as_json,
        json_schema as json_schema,
    )
    from whisper_hailo.transcription.longform.options import LongOptions as LongOptions
    from whisper_hailo.transcription.run import Segments as Segments
    from whisper_hailo.transcription.transcriber import Transcriber as Transcriber
    from whisper_hailo.transcription.window_cache import WindowCache as WindowCache

_NAMES: Final = {
    "backends.options": "ChipOptions EngineOptions",
    "convert.options": "ConvertOptions HailoOptions",
    "core.errors": "AudioError DeviceError HubError ModelError OptionError OutputError "
    "WhisperHailoError",
    "core.types": "Segment Settings Timings Transcript Word",
    "decoding.options": "AntiRepetition DecodingOptions PromptOptions SearchOptions Thresholds "
    "TokenLimits",
    "live.options": "CaptionOptions",
    "live.stream": "BlockCaptions stream",
    "text.formats": "render",
    "text.subtitles": "Layout",
    "text.transcript_json": "as_json json_schema",
    "transcription.longform.options": "LongOptions",
    "transcription.run": "Segments",
    "transcription.transcriber": "Transcriber",
    "transcription.window_cache": "WindowCache",
}
"""The public interface by module; it is documented, and changes only with the version."""

_HOMES: Final = {
    name: module for module, names in _NAMES.items() for name in names.split()
}
__all__ = [*_HOMES, "__version__"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    """Import public names on first use: `--help` must not wait for the runtime."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"whisper_hailo.{_HOMES[name]}"), name)
