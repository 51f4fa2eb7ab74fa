"""What is made of a soak's files, also of one that was cut."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
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
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo_lab.captions.event_checks import EventChecker
from whisper_hailo_lab.captions.soak.room import Diary, Fault, PageText, Played
from whisper_hailo_lab.captions.soak.service import PARTIAL_S, HeldMemory
from whisper_hailo_lab.captions.stream import captioned, percent_wrong

_KINDS: Final = {kind.name: kind for kind in (Started, Partial, Completed, Lost, Away, Back)}
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


_FLAT_FROM_S: Final = 600.0


def outcome(folder: Path, model: str) -> dict[str, Any]:
    """Against the guarantees, the room, the page and the files.

    Args:
        folder: of the soak.
        model: checkpoint, which hears the same clips where nothing happens.
    """
    diary = Diary(folder)
    entries = list(diary.entries())
    faults = [entry for entry in entries if isinstance(entry, Fault)]
    played = [entry for entry in entries if isinstance(entry, Played)]
    weights = [entry for entry in entries if isinstance(entry, HeldMemory)]
    runs = runs_of(folder / "a.jsonl")
    return {
        "minutes_real": round((played[-1].end_s - played[0].start_s) / 60),
        "faults": dict(Counter(fault.kind for fault in faults)),
        "starts": len(runs),
        **_found(runs, faults, played, model, folder),
        **_page(runs, diary.shown()),
        **memory(weights),
    }


def _found(
    runs: list[Run], faults: list[Fault], played: list[Played], model: str, folder: Path
) -> dict[str, Any]:
    taking = [(fault.kind, fault.start_s, fault.end_s) for fault in faults if fault.takes_sound]
    calm = undisturbed(played, taking)
    heard = [heard_in(runs, clip.start_s, clip.end_s) for clip in calm]
    reference = " ".join(clip.text for clip in calm)
    return {
        "violations": [
            breach for run in runs for breach in run.breaches(killed=run is not runs[-1])
        ],
        "doubled": overlaps(runs, taking),
        "clips": len(played),
        "clips_undisturbed": len(calm),
        "clips_not_heard": [clip.text for clip, text in zip(calm, heard, strict=True) if not text],
        "wer": percent_wrong(reference, " ".join(heard)),
        "wer_as_file": percent_wrong(reference, _as_file(calm, folder, model)),
        "segments": sum(len(run.completed) for run in runs),
        "subtitles_differ": int(cues_of(folder) != texts_of(runs)),
        "recorded_s": round(recorded_s(folder), 1),
        "away": sum(line["event"] == "away" for run in runs for line in run.lines),
        "lost": sum(line["event"] == "lost" for run in runs for line in run.lines),
    }


def _as_file(clips: list[Played], folder: Path, model: str) -> str:
    """What is heard of the same clips where nothing happens."""
    pause = np.zeros(2 * SAMPLE_RATE_HZ, np.float32)
    sound = [part for clip in clips for part in (load_audio(Path(clip.path)), pause)]
    path = folder / "same.wav"
    soundfile.write(path, np.concatenate(sound), SAMPLE_RATE_HZ)
    return captioned(path, model, CaptionOptions(min_partial_s=PARTIAL_S))


def _page(runs: list[Run], shown: PageText) -> dict[str, Any]:
    """What the page showed, against what was written; runs have their ids for themselves."""
    written = [{line["segment_id"]: line["text"] for line in run.completed} for run in runs]
    return {
        "page_visits": shown.n_visits,
        "page_lost": sum(
            len(texts.keys() - seen.keys())
            for texts, seen in zip(written, shown.runs, strict=False)
        ),
        "page_doubled": len(shown.twice),
        "page_not_written": sum(
            seen[index] != texts.get(index)
            for texts, seen in zip(written, shown.runs, strict=False)
            for index in seen
        ),
    }


def memory(weights: Sequence[HeldMemory]) -> dict[str, Any]:
    """Of the oldest process: medians of each five minutes, and how much it grows after ten."""
    oldest = max(weights, key=lambda weight: weight.age_s).run if weights else 0
    own = [weight for weight in weights if weight.run == oldest]
    late = [weight for weight in own if weight.age_s >= _FLAT_FROM_S]
    slope = (
        float(np.polyfit([w.age_s / 60 for w in late], [w.rss_mib for w in late], 1)[0])
        if len(late) > 2
        else None
    )
    return {
        "memory_mib": [
            round(float(np.median([w.rss_mib for w in own if w.age_s // 300 == part])), 1)
            for part in sorted({w.age_s // 300 for w in own})
        ],
        "memory_mib_per_minute_after_ten": slope,
        "descriptors": max((w.n_descriptors for w in own), default=0),
        "threads_of_process": max((w.n_threads for w in own), default=0),
    }
