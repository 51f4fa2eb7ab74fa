"""Transcripts of recordings by any system, one JSON line each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError, display_path

SYSTEM: Final = "whisper-hailo"
"""Name of this program in transcripts."""


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """Transcript of one recording by one system.

    Attributes:
        set: set of the recording.
        id: id of the recording in its set.
        language: language of the recording, or `none` where it has no speech.
        seconds: length of the audio.
        reference: raw text.
        text: raw hypothesis.
        language_found: detected or given language code.
        segments: start and end in seconds, and text.
        seconds_cpu: processor seconds.
        system: name of the system, such as `whisper-hailo`.
        model: name of the model, such as `base`.
        options: options of the system.
        version: versions of the system and its engine.
        machine: hardware.
        error: message of the error that it gave instead of a text; empty without one.
    """

    set: str
    id: str
    language: str
    seconds: float
    reference: str
    text: str
    language_found: str | None
    segments: tuple[tuple[float, float, str], ...]
    seconds_cpu: float
    system: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    machine: str = ""
    error: str = ""

    @property
    def key(self) -> str:
        """Set and id of the recording."""
        return f"{self.set}/{self.id}"

    @property
    def has_speech(self) -> bool:
        """Whether somebody speaks in the recording."""
        return self.language != "none"

    def as_json(self) -> str:
        """Return the line, without its line end."""
        return json.dumps(asdict(self), ensure_ascii=False)


_FIELDS = frozenset(TranscriptLine.__dataclass_fields__)


def parse_line(text: str) -> TranscriptLine:
    """Parse one line; unknown fields are ignored."""
    values = {
        name: value for name, value in json.loads(text).items() if name in _FIELDS
    }
    values["segments"] = tuple(
        (start_s, end_s, words) for start_s, end_s, words in values["segments"]
    )
    return TranscriptLine(**values)


def read_transcripts(path: Path) -> list[TranscriptLine]:
    """Read a file of transcripts; the last line of a recording counts, unless it is cut short.

    Raises:
        OptionError: the file does not exist, or has other lines.
    """
    if not path.is_file():
        raise OptionError(
            f"{display_path(path)} does not exist; write it with `accuracy transcribe`"
        )
    text = path.read_text(encoding="utf-8")
    complete, _, _ = text.rpartition("\n")
    try:
        lines = [parse_line(line) for line in complete.splitlines() if line]
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(
            f"{display_path(path)} does not hold transcripts, a JSON object per line ({error}); "
            "move it out of the folder"
        ) from error
    return list({line.key: line for line in lines}.values())


def common_transcripts(
    files: Iterable[list[TranscriptLine]],
) -> list[list[TranscriptLine]]:
    """Return the transcripts of the recordings that every file has, in the order of the first."""
    by_key = [{line.key: line for line in lines} for lines in files]
    if not by_key:
        return []
    shared = set.intersection(*(set(lines) for lines in by_key))
    keys = [key for key in by_key[0] if key in shared]
    return [[lines[key] for key in keys] for lines in by_key]
