"""Audio of any kind as `(n_samples,)` float32, 16 kHz, mono, in a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from whisper_hailo.audio.stream import AudioSource, load_audio, open_audio

__all__ = ["AudioSource", "load_audio", "open_audio"]

AUDIO_SUFFIXES: Final = (
    ".wav",
    ".flac",
    ".mp3",
    ".ogg",
    ".oga",
    ".opus",
    ".m4a",
    ".mp4",
    ".mkv",
    ".webm",
    ".aac",
    ".aif",
    ".aiff",
    ".caf",
    ".wma",
    ".au",
)
"""Recordings among the files of a folder, preferred ones first; a named file may have any."""

MEDIA_SUFFIXES: Final = frozenset({".m4a", ".mp4", ".mkv", ".webm", ".aac", ".wma"})
"""Suffixes of recordings that need the extra `media`."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    """Import public names on first use: the decoding process must start without NumPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from whisper_hailo.audio import stream

    return getattr(stream, name)
