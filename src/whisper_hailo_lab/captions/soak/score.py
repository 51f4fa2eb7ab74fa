"""What became of it: events of all runs against the guarantees, the room, the page, the files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from whisper_hailo.audio import open_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.event_checks import EventChecker
from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Completed,
    Event,
    Lost,
    Partial,
    Started,
)
from whisper_hailo_lab.captions.soak.room import Played

_KINDS: Final = {
    kind.__name__.lower(): kind for kind in (Started, Partial, Completed, Lost, Away, Back)
}
_MARGIN_S: Final = 0.8
"""Between the word of command to the player and the sound, and by how much word times are off."""


@dataclass(frozen=True, slots=True)
class Run:
    """The events of one start of the program.

    Attributes:
        name: that the page and the file have in common for it; empty in files of before.
        lines: as they were written.
    """

    name: str
    lines: list[dict[str, Any]]

    @property
    def completed(self) -> list[dict[str, Any]]:
        """Events of completed segments whose text is not empty."""
        return [line for line in self.lines if line["event"] == "completed" and line["text"]]

    def breaches(self, *, killed: bool) -> Iterator[str]:
        """What breaks the guarantees; a run that was killed need not complete its last segment."""
        watch = EventChecker()
        for line in self.lines:
            yield from watch.see(event_of(line))
        if not killed:
            yield from watch.end()


def runs_of(path: Path) -> list[Run]:
    """Of a file of events."""
    runs: list[Run] = []
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if line["event"] == "run":
            runs.append(Run(line["run"], []))
        else:
            runs[-1].lines.append(line)
    return runs


def event_of(line: dict[str, Any]) -> Event:
    """An event as it was before it was written."""
    kind = _KINDS[line["event"]]
    given = {one.name: line[one.name] for one in fields(kind) if one.name in line}
    for name in ("words", "committed", "tentative"):
        if name in given:
            given[name] = tuple(CaptionWord(**word) for word in given[name])
    event: Event = kind(**given)
    return event


def overlaps(runs: Sequence[Run], faults: Sequence[tuple[str, float, float]]) -> list[str]:
    """Segments that begin before the one before them ends, by the time on the wall.

    Sound that was kept while the program was stopped comes late, and has the time at which it came.
    """
    spans = [
        (said_at(line), said_at(line) + line["end_s"] - line["start_s"], line["text"])
        for run in runs
        for line in run.completed
        if not any(begin <= said_at(line) <= end + _MARGIN_S for _, begin, end in faults)
    ]
    return [
        f"{one[2]!r} and {other[2]!r}" for one, other in pairwise(spans) if other[0] < one[1] - 0.1
    ]


def said_at(line: dict[str, Any]) -> float:
    """When an event's beginning was said, in seconds since 1970."""
    return datetime.fromisoformat(line["at"]).timestamp()


def heard_in(runs: Sequence[Run], start_s: float, end_s: float) -> str:
    """Words that were said in a stretch of time."""
    words = [
        word["text"]
        for run in runs
        for line in run.completed
        for word in line["words"]
        if start_s - _MARGIN_S
        <= said_at(line) + word.get("start_s", line["start_s"]) - line["start_s"]
        <= end_s + _MARGIN_S
    ]
    return "".join(words).strip()


def undisturbed(
    played: Sequence[Played], faults: Sequence[tuple[str, float, float]]
) -> list[Played]:
    """Clips that were played while all was well."""
    return [
        clip
        for clip in played
        if clip.whole
        and not any(
            begin - 1 < clip.end_s + 2 and clip.start_s < end + 1 for _, begin, end in faults
        )
    ]


def cues_of(folder: Path) -> str:
    """All that is said in the subtitles, in order."""
    files = sorted(folder.glob("a*.srt"), key=lambda path: path.stat().st_mtime)
    texts = [
        line
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if line and not line.isdigit() and " --> " not in line
    ]
    return _plain(" ".join(texts))


def texts_of(runs: Sequence[Run]) -> str:
    """All that was completed, in order."""
    return _plain(" ".join(line["text"] for run in runs for line in run.completed))


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("-->", "->")).strip()


def recorded_s(folder: Path) -> float:
    """Seconds in all recordings; the header of one whose program was killed does not say."""
    n_samples = 0
    for path in folder.glob("a*.flac"):
        with open_audio(path) as stream:
            n_samples += sum(block.size for block in stream.blocks(SAMPLE_RATE_HZ))
    return n_samples / SAMPLE_RATE_HZ
