"""Groups that recordings are divided into, in tables of a terminal and of documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from whisper_hailo_lab.data.joined import JOINED
from whisper_hailo_lab.runs.transcripts import TranscriptLine

ENGLISH: Final = "English"
OTHER: Final = "other languages"
SILENT: Final = "no speech"
LONG: Final = "long recordings"
KINDS: Final = (ENGLISH, OTHER, SILENT, LONG)


def kind_of(line: TranscriptLine) -> str:
    """Return one of `KINDS`; long recordings are those that were joined."""
    if line.set == JOINED:
        return LONG
    if not line.has_speech:
        return SILENT
    return ENGLISH if line.language == "en" else OTHER


GROUPS: Final[dict[str, Callable[[TranscriptLine], str]]] = {
    "all": lambda line: "all",
    "set": lambda line: f"{line.set} {line.language}",
    "language": lambda line: line.language,
    "kind": kind_of,
}
"""Ways to divide recordings into rows."""
