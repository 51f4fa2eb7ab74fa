"""What is made of a soak's files, also of one that was cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo_lab.captions.soak.diary import Diary, Fault, PageText
from whisper_hailo_lab.captions.soak.room import Played
from whisper_hailo_lab.captions.soak.score import (
    Run,
    cues_of,
    heard_in,
    overlaps,
    recorded_s,
    runs_of,
    texts_of,
    undisturbed,
)
from whisper_hailo_lab.captions.soak.service import PARTIAL_S, HeldMemory
from whisper_hailo_lab.captions.stream import captioned, percent_wrong

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
