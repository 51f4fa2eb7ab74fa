"""Which files of a folder are taken for recordings."""

from __future__ import annotations

from typing import Final

AUDIO_SUFFIXES: Final = (
    *(".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".mp4", ".mkv", ".webm", ".aac"),
    *(".aif", ".aiff", ".caf", ".wma", ".au"),
)
"""In lower case, the first ones preferred; a file that is named is taken whatever it is called."""

MEDIA_SUFFIXES: Final = frozenset({".m4a", ".mp4", ".mkv", ".webm", ".aac", ".wma"})
"""Those of them that only the extra `media` reads."""
