"""Outcome of a soak from its files, also of one that was interrupted."""

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
from whisper_hailo_lab.captions.stream import caption_file, word_error_percent

_KINDS: Final = {
    kind.name: kind for kind in (Started, Partial, Completed, Lost, Away, Back)
}
_MARGIN_S: Final = 0.8
"""Delay from the player's start to the sound, and inaccuracy of word times."""

_FLAT_FROM_S: Final = 600.0
_PART_S: Final = 300

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventRun:
    """Events of one start of the program, as they were written."""

    lines: list[Line]

    @property
    def completed(self) -> list[Line]:
        """Events of completed segments with a text."""
        return [
            line for line in self.lines if line["event"] == "completed" and line["text"]
        ]

    def breaches(self, *, is_killed: bool) -> Iterator[str]:
        """Yield breaches of the guarantees; a killed run need not complete its last segment."""
        checker = EventChecker()
        for line in self.lines:
            yield from checker.check_event(parse_event(line))
        if not is_killed:
            yield from checker.check_end()


def read_events(path: Path) -> list[EventRun]:
    """Read the runs of a file of events."""
    runs: list[EventRun] = []
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if line["event"] == "run":
            runs.append(EventRun([]))
        else:
            runs[-1].lines.append(line)
    return runs


def parse_event(line: Line) -> Event:
    """Return the event of a line."""
    kind = _KINDS[line["event"]]
    values = {
        field.name: line[field.name] for field in fields(kind) if field.name in line
    }
    for name in ("words", "committed", "tentative"):
        if name in values:
            values[name] = tuple(CaptionWord(**word) for word in values[name])
    event: Event = kind(**values)
    return event


def spoken_at(line: Line) -> float:
    """Return when an event's beginning was spoken, in seconds since 1970."""
    return datetime.fromisoformat(line["at"]).timestamp()


def find_overlaps(runs: Sequence[EventRun], faults: Sequence[Fault]) -> list[str]:
    """Return segments that begin before the previous one ends, by the wall clock.

    Segments within a fault do not count: sound that was buffered while the program was stopped has
    the time of its late arrival.
    """
    lines = [
        line
        for run in runs
        for line in run.completed
        if not any(
            fault.start_s <= spoken_at(line) <= fault.end_s + _MARGIN_S
            for fault in faults
        )
    ]
    overlaps = []
    for line, following in pairwise(lines):
        end_s = spoken_at(line) + line["end_s"] - line["start_s"]
        if spoken_at(following) < end_s - 0.1:
            overlaps.append(f"{line['text']!r} and {following['text']!r}")
    return overlaps


def words_between(runs: Sequence[EventRun], start_s: float, end_s: float) -> str:
    """Return the words that were spoken in a span of time."""
    words = []
    for run in runs:
        for line in run.completed:
            for word in line["words"]:
                offset_s = word.get("start_s", line["start_s"]) - line["start_s"]
                at_s = spoken_at(line) + offset_s
                if start_s - _MARGIN_S <= at_s <= end_s + _MARGIN_S:
                    words.append(word["text"])
    return "".join(words).strip()


def undisturbed_clips(
    played: Sequence[Played], faults: Sequence[Fault]
) -> list[Played]:
    """Return the clips that were played without a fault."""
    return [
        clip
        for clip in played
        if clip.whole and not any(_touches(clip, fault) for fault in faults)
    ]


def _touches(clip: Played, fault: Fault) -> bool:
    return fault.start_s - 1 < clip.end_s + 2 and clip.start_s < fault.end_s + 1


def read_subtitles(folder: Path) -> str:
    """Return the text of all subtitles, in order."""
    files = sorted(folder.glob("a*.srt"), key=lambda path: path.stat().st_mtime)
    lines = [
        line for path in files for line in path.read_text(encoding="utf-8").splitlines()
    ]
    texts = [
        line for line in lines if line and not line.isdigit() and " --> " not in line
    ]
    return _normalise_blanks(" ".join(texts))


def join_texts(runs: Sequence[EventRun]) -> str:
    """Return the text of all completed segments, in order."""
    return _normalise_blanks(
        " ".join(line["text"] for run in runs for line in run.completed)
    )


def _normalise_blanks(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("-->", "->")).strip()


def recorded_seconds(folder: Path) -> float:
    """Return the seconds in all recordings; the header of a killed program's file lacks them."""
    n_samples = 0
    for path in folder.glob("a*.flac"):
        with open_audio(path) as stream:
            n_samples += sum(block.size for block in stream.blocks(SAMPLE_RATE_HZ))
    return n_samples / SAMPLE_RATE_HZ


def score_soak(folder: Path, model: str) -> dict[str, Any]:
    """Compare events, page and files with what was played.

    Args:
        folder: folder of the soak.
        model: checkpoint, which also transcribes the same clips without faults.
    """
    diary = Diary(folder)
    entries = list(diary.entries())
    faults = [entry for entry in entries if isinstance(entry, Fault)]
    played = [entry for entry in entries if isinstance(entry, Played)]
    memory = [entry for entry in entries if isinstance(entry, HeldMemory)]
    runs = read_events(folder / "a.jsonl")
    return {
        "minutes_real": round((played[-1].end_s - played[0].start_s) / 60),
        "faults": dict(Counter(fault.kind for fault in faults)),
        "starts": len(runs),
        **_score_events(runs, faults, played, model, folder),
        **_score_page(runs, diary.page()),
        **summarise_memory(memory),
    }


def _score_events(
    runs: list[EventRun],
    faults: list[Fault],
    played: list[Played],
    model: str,
    folder: Path,
) -> dict[str, Any]:
    taking = [fault for fault in faults if fault.takes_sound]
    calm = undisturbed_clips(played, taking)
    heard = [words_between(runs, clip.start_s, clip.end_s) for clip in calm]
    missing = [clip.text for clip, text in zip(calm, heard, strict=True) if not text]
    reference = " ".join(clip.text for clip in calm)
    breaches = [
        breach for run in runs for breach in run.breaches(is_killed=run is not runs[-1])
    ]
    kinds = Counter(line["event"] for run in runs for line in run.lines)
    return {
        "violations": breaches,
        "doubled": find_overlaps(runs, taking),
        "clips": len(played),
        "clips_undisturbed": len(calm),
        "clips_not_heard": missing,
        "wer": word_error_percent(reference, " ".join(heard)),
        "wer_as_file": word_error_percent(
            reference, _caption_clips(calm, folder, model)
        ),
        "segments": sum(len(run.completed) for run in runs),
        "subtitles_differ": int(read_subtitles(folder) != join_texts(runs)),
        "recorded_s": round(recorded_seconds(folder), 1),
        "away": kinds["away"],
        "lost": kinds["lost"],
    }


def _caption_clips(clips: list[Played], folder: Path, model: str) -> str:
    """Return the captions of the same clips without faults."""
    pause = np.zeros(2 * SAMPLE_RATE_HZ, np.float32)
    sound = []
    for clip in clips:
        sound += [load_audio(Path(clip.path)), pause]
    path = folder / "same.wav"
    soundfile.write(path, np.concatenate(sound), SAMPLE_RATE_HZ)
    return caption_file(path, model, CaptionOptions(min_partial_s=PARTIAL_S))


def _score_page(runs: list[EventRun], page: PageText) -> dict[str, Any]:
    """Compare the page's texts with the written ones, run by run, since ids repeat."""
    n_lost = 0
    n_unwritten = 0
    for run, seen in zip(runs, page.runs, strict=False):
        written = {line["segment_id"]: line["text"] for line in run.completed}
        n_lost += len(written.keys() - seen.keys())
        n_unwritten += sum(text != written.get(index) for index, text in seen.items())
    return {
        "page_visits": page.n_visits,
        "page_lost": n_lost,
        "page_doubled": len(page.twice),
        "page_not_written": n_unwritten,
    }


def summarise_memory(samples: Sequence[HeldMemory]) -> dict[str, Any]:
    """Return the memory of the oldest process in each five minutes, and its late growth."""
    oldest = max(samples, key=lambda sample: sample.age_s).run if samples else 0
    process = [sample for sample in samples if sample.run == oldest]
    by_part: dict[float, list[float]] = {}
    for sample in process:
        by_part.setdefault(sample.age_s // _PART_S, []).append(sample.rss_mib)
    return {
        "memory_mib": [
            round(float(np.median(by_part[part])), 1) for part in sorted(by_part)
        ],
        "memory_mib_per_minute_after_ten": _growth_per_minute(process),
        "descriptors": max((sample.n_descriptors for sample in process), default=0),
        "threads_of_process": max((sample.n_threads for sample in process), default=0),
    }


def _growth_per_minute(process: Sequence[HeldMemory]) -> float | None:
    """Return the slope of memory once the process is warm; `None` with too few samples."""
    late = [sample for sample in process if sample.age_s >= _FLAT_FROM_S]
    if len(late) <= 2:
        return None
    minutes = [sample.age_s / 60 for sample in late]
    return float(np.polyfit(minutes, [sample.rss_mib for sample in late], 1)[0])
