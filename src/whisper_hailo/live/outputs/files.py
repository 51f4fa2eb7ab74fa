"""The files of captions: events, subtitles of completed segments, and the audio."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.audio.flac import FlacBytes
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.overwrite import Signature
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Word
from whisper_hailo.live.events import Completed, Event, as_json
from whisper_hailo.live.outputs.growing_file import GrowingFile
from whisper_hailo.live.sources.source import Block
from whisper_hailo.text.cue_setter import CueSetter
from whisper_hailo.text.formats import FORMATS, CueFormat, Format
from whisper_hailo.text.subtitles import (
    Cue,
    Layout,
    split_clauses,
    split_lines,
    spread_times,
)

CUES: Final = Layout(max_line_width=42, max_line_count=2)
"""Limits that broadcasters agree on and all players show."""

_MAX_SILENCE_S: Final = 600.0
"""A source that was away for longer is recorded in a new file."""

_SYNC_S: Final = 5.0
"""Audio that a power cut may cost."""


_EVENTS: Final = Signature("a file of caption events", rb'\{"event": "')
_FLAC: Final = Signature("a FLAC file", rb"fLaC")


def caption_formats() -> dict[str, Format]:
    """Return the formats of caption files by their suffix: subtitles, and plain text."""
    formats = {
        f".{name}": entry
        for name, entry in FORMATS.items()
        if isinstance(entry, CueFormat)
    }
    return formats | {".txt": FORMATS["txt"]}


class EventFile(GrowingFile[Event]):
    """All events as JSON Lines; each run begins with a line that has its name and its time."""

    def __init__(self, path: Path, *, daily: bool = False) -> None:
        super().__init__(path, _EVENTS, daily=daily, joins=True)
        self._run = secrets.token_hex(8)

    def _write_item(self, event: Event) -> None:
        self._append_record(
            _json_line(as_json(event)), durable=isinstance(event, Completed)
        )

    def _make_header(self) -> bytes:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        return _json_line({"event": "run", "run": self._run, "at": now})


class CaptionFile(GrowingFile[Event]):
    """Completed segments with words as subtitles or plain text, by the ending of the name.

    Args:
        layout: of subtitles; `None` sets them for reading.
        is_live: what is shown is on the disk at once, so that cues end with their segments.
    """

    def __init__(
        self,
        path: Path,
        *,
        daily: bool = False,
        layout: Layout | None = None,
        is_live: bool = True,
    ) -> None:
        formats = caption_formats()
        suffix = path.suffix.lower()
        if suffix not in formats:
            raise OptionError(
                f"--output is {display_path(path)}, expected a name that ends in "
                f"{', '.join(formats)}"
            )
        self._format = formats[suffix]
        super().__init__(path, self._format.signature, daily=daily)
        self._layout = layout or Layout()
        self._setter = CueSetter(self._layout)
        self._is_live = is_live
        self._n_cues = 0

    def _write_item(self, event: Event) -> None:
        if not isinstance(event, Completed) or not event.text:
            return
        if not isinstance(self._format, CueFormat):
            translation = f"{event.translation}\n" if event.translation else ""
            self._append_record(f"{event.text}\n{translation}".encode(), durable=True)
            return
        if not self._layout.is_readable or event.translation is not None:
            self._append_cues(self._format, cues_of(event, self._layout))
            return
        # A disk that is full gets the same segment again: the setter must not have seen it.
        setter = deepcopy(self._setter)
        cues = list(setter.write(_as_segment(event)))
        if self._is_live:
            cues += setter.finish(event.end_s)
        self._append_cues(self._format, cues)
        self._setter = setter

    def _append_cues(self, entry: CueFormat, cues: Iterable[Cue]) -> None:
        parts = [
            entry.format_cue(cue, number)
            for number, cue in enumerate(cues, self._n_cues + 1)
        ]
        self._append_record("".join(parts).encode(), durable=True)
        self._n_cues += len(parts)

    def _finish_file(self) -> None:
        if isinstance(self._format, CueFormat) and self._descriptor >= 0:
            setter = deepcopy(self._setter)
            self._append_cues(self._format, setter.finish())
            self._setter = setter

    def _make_header(self) -> bytes:
        self._n_cues = 0
        self._setter = CueSetter(self._layout)
        return self._format.heading.encode()


class FlacRecording(GrowingFile[Block]):
    """The audio of a source as FLAC, 16 kHz mono, on the captions' timeline.

    It can be read whenever the program is killed; lost audio is silence in it.
    """

    unit = "s of sound"
    most_waiting = 600.0

    def __init__(
        self,
        path: Path,
        *,
        daily: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if path.suffix.lower() != ".flac":
            raise OptionError(
                f"--record is {display_path(path)}, expected a name that ends in .flac"
            )
        super().__init__(path, _FLAC, daily=daily, now=now)
        self._flac: FlacBytes | None = None
        self._is_torn = (
            False  # the audio that follows is not on the timeline of this file
        )
        self._now = now
        self._synced_s = now()

    def _write_item(self, block: Block) -> None:
        """Write what was encoded before, and encode a block with the silence behind it."""
        flac = self._flac or FlacBytes()
        self._flac = flac
        self._append_fresh(flac)
        clipped = np.clip(block.audio, -1.0, 1.0)
        flac.add(np.rint(clipped * 32767.0).astype(np.int16))
        if block.n_missing > _MAX_SILENCE_S * SAMPLE_RATE_HZ:
            self._is_torn = True
        else:
            flac.add(np.zeros(block.n_missing, np.int16))

    def _append_fresh(self, flac: FlacBytes) -> None:
        """Append what was encoded, and now and then wait until it is on the disk."""
        durable = self._now() - self._synced_s >= _SYNC_S
        self._append_record(bytes(flac.fresh), durable=durable)
        if durable:
            self._synced_s = self._now()
        flac.note_written()

    def _is_over(self) -> bool:
        return self._is_torn or super()._is_over()

    def _finish_file(self) -> None:
        if self._flac is None:
            return
        self._flac.finish()
        self._append_fresh(self._flac)
        if self._is_regular:  # the header says how long it is
            with self._part.open(
                "r+b", buffering=0
            ) as file:  # our descriptor only appends
                for offset, data in self._flac.patches:
                    file.seek(offset)
                    file.write(data)

    def _close_file(self) -> None:
        super()._close_file()
        self._flac = None
        self._is_torn = False

    def _measure_item(self, block: Block) -> float:
        return (block.audio.size + block.n_missing) / SAMPLE_RATE_HZ

    def _drop_item(self, block: Block) -> float:
        self._is_torn = True
        return super()._drop_item(block)


def _json_line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, allow_nan=False).encode() + b"\n"


def _as_segment(event: Completed) -> Segment:
    """Return a completed segment with timed words, to be set as cues."""
    return Segment(
        event.start_s,
        event.end_s,
        event.text,
        (),
        0.0,
        0.0,
        words=tuple(timed_words(event)),
        language=event.language,
    )


def cues_of(event: Completed, layout: Layout = CUES) -> Iterator[Cue]:
    """Yield the cues of a segment, and of its translation; those of each fill its time."""
    cues = list(_set_cues(timed_words(event), event, layout))
    words = [f" {word}" for word in (event.translation or "").split()]
    cues += _set_cues(spread_times(words, event.start_s, event.end_s), event, layout)
    yield from sorted(cues, key=lambda cue: cue.start_s)


def _set_cues(words: Sequence[Word], event: Completed, layout: Layout) -> Iterator[Cue]:
    width = layout.max_line_width or sys.maxsize
    groups = list(split_clauses(words, width, layout.max_line_count or sys.maxsize))
    # A cue lasts until the next one begins; the first and the last fill the segment.
    edges_s = [event.start_s]
    edges_s += [group[0].start_s for group in groups[1:]]
    edges_s.append(event.end_s)
    for group, (start_s, end_s) in zip(groups, pairwise(edges_s), strict=False):
        yield Cue(start_s, end_s, "\n".join(split_lines(group, width)))


def timed_words(event: Completed) -> list[Word]:
    """Return the words of a segment with times; without times they share the segment's."""
    timed = [
        Word(word.start_s, word.end_s, word.text, 0.0)
        for word in event.words
        if word.start_s is not None and word.end_s is not None
    ]
    if len(timed) == len(event.words):
        return timed
    return spread_times([word.text for word in event.words], event.start_s, event.end_s)
