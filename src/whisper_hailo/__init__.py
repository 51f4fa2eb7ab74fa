"""Whisper speech-to-text with the encoder on a Hailo NPU or the CPU and a cached CPU decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whisper_hailo.core.privacy import keep_private
from whisper_hailo.core.version import __version__

keep_private()  # first: every program of ours comes through here before it imports a library

if TYPE_CHECKING:
    from whisper_hailo.convert.options import ConvertOptions
    from whisper_hailo.core.types import Segment, Transcript, Word
    from whisper_hailo.decoding.options import Cures, DecodingOptions
    from whisper_hailo.live.blocks import BlockCaptions, stream, stream_async
    from whisper_hailo.live.options import CaptionOptions
    from whisper_hailo.transcription.longform.plan import LongOptions
    from whisper_hailo.transcription.transcriber import Transcriber

__all__ = [
    "BlockCaptions",
    "CaptionOptions",
    "ConvertOptions",
    "Cures",
    "DecodingOptions",
    "LongOptions",
    "Segment",
    "Transcriber",
    "Transcript",
    "Word",
    "__version__",
    "stream",
    "stream_async",
]

_HOMES = {
    "BlockCaptions": "whisper_hailo.live.blocks",
    "CaptionOptions": "whisper_hailo.live.options",
    "ConvertOptions": "whisper_hailo.convert.options",
    "Cures": "whisper_hailo.decoding.options",
    "DecodingOptions": "whisper_hailo.decoding.options",
    "LongOptions": "whisper_hailo.transcription.longform.plan",
    "Segment": "whisper_hailo.core.types",
    "Transcriber": "whisper_hailo.transcription.transcriber",
    "Transcript": "whisper_hailo.core.types",
    "Word": "whisper_hailo.core.types",
    "stream": "whisper_hailo.live.blocks",
    "stream_async": "whisper_hailo.live.blocks",
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
