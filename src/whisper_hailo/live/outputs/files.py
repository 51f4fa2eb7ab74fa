"""Files that grow with the captions, and the subtitles of a completed segment."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.types import Word
from whisper_hailo.live.events import Completed, Event, as_json
from whisper_hailo.live.outputs.growing_file import GrowingFile, Rotation
from whisper_hailo.text.subtitles import (
    Cue,
    Layout,
    speaker_label,
    split_clauses,
    split_lines,
    spread_times,
    srt_cue,
    vtt_cue,
)

FORMATS: Final = ("srt", "vtt", "txt")

CUES: Final = Layout(max_line_width=42, max_line_count=2)
"""What broadcasters agree on, and all players show."""


class EventFile(GrowingFile):
    """All events as JSON Lines; each run begins with a line that has its name and its time."""

    def __init__(self, path: Path, rotation: Rotation | None = None) -> None:
        super().__init__(path, "jsonl", rotation, joins=True)
        self._run = secrets.token_hex(8)

    def put(self, event: Event) -> None:
        self.append(_json_line(as_json(event)), durable=isinstance(event, Completed))

    def _head(self) -> bytes:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        return _json_line({"event": "run", "run": self._run, "at": now})


class CaptionFile(GrowingFile):
    """Completed segments as subtitles or plain text, by the ending of the name."""

    def __init__(self, path: Path, rotation: Rotation | None = None, layout: Layout = CUES) -> None:
        ending = path.suffix.lower().removeprefix(".")
        if ending not in FORMATS:
            raise OptionError(
                f"--output is {display_path(path)}, expected a name that ends in "
                f"{', '.join('.' + ending for ending in FORMATS)}"
            )
        super().__init__(path, ending, rotation)
        self._layout = layout

    def put(self, event: Event) -> None:
        """Append a completed segment, unless it has no words."""
        if isinstance(event, Completed) and event.text:
            self.append(*(record.encode() for record in self._records(event)), durable=True)

    def _records(self, event: Completed) -> Iterator[str]:
        if self._format == "txt":
            yield f"{speaker_label(event.speaker)}{event.text}\n"
            if event.translation:
                yield f"{event.translation}\n"
            return
        shown = srt_cue if self._format == "srt" else vtt_cue
        yield from map(shown, cues_of(event, self._layout))

    def _head(self) -> bytes:
        return b"WEBVTT\n\n" if self._format == "vtt" else b""

    def _joined(self, records: Sequence[bytes], n_before: int) -> bytes:
        """Number the cues of SubRip from the first one of the file."""
        if self._format != "srt":
            return super()._joined(records, n_before)
        return b"".join(b"%d\n%b" % (n, cue) for n, cue in enumerate(records, n_before + 1))


def _json_line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, allow_nan=False).encode() + b"\n"


def cues_of(event: Completed, layout: Layout = CUES) -> Iterator[Cue]:
    """Yield the cues of a segment, as long as it together; a translation has cues beside them."""
    said = list(_cues(timed_words(event), event, layout))
    words = [f" {word}" for word in (event.translation or "").split()]
    translated = _cues(spread_times(words, event.start_s, event.end_s), event, layout)
    yield from sorted([*said, *translated], key=lambda cue: cue.start_s)


def _cues(words: Sequence[Word], event: Completed, layout: Layout) -> Iterator[Cue]:
    width = layout.max_line_width or sys.maxsize
    groups = list(split_clauses(words, width, layout.max_line_count or sys.maxsize))
    starts_s = [event.start_s, *(group[0].start_s for group in groups[1:])]
    for group, (start_s, end_s) in zip(groups, pairwise([*starts_s, event.end_s]), strict=False):
        yield Cue(start_s, end_s, "\n".join(split_lines(group, width)), event.speaker)


def timed_words(event: Completed) -> list[Word]:
    """Return the words of a segment with times; without times they share the segment's."""
    shared = spread_times([word.text for word in event.words], event.start_s, event.end_s)
    timed = []
    for word, other in zip(event.words, shared, strict=True):
        if word.start_s is None or word.end_s is None:
            return shared
        timed.append(replace(other, start_s=word.start_s, end_s=word.end_s))
    return timed
