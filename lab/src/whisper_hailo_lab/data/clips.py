"""The frozen clips of the bundled model: recordings whose words and their times are known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whisper_hailo.core.version import __version__
from whisper_hailo_lab.clip_archives import read_manifest, unpack_clips
from whisper_hailo_lab.repository import MICRO
from whisper_hailo_lab.runs.machine import mark_of, this_machine


@dataclass(frozen=True, slots=True)
class SpokenClip:
    """A clip and what is said in it.

    Attributes:
        id: its name without suffix.
        path: the recording.
        language: such as `en`.
        text: what is said.
        words: each with its true start and end in seconds: the clips are synthesised.
    """

    id: str
    path: Path
    language: str
    text: str
    words: tuple[tuple[str, float, float], ...]


def spoken_clips(name: str, limit: int | None = None) -> list[SpokenClip]:
    """So many clips of a frozen set, in order."""
    entries = [entry for entry in read_manifest() if entry["set"] == name]
    folder = unpack_clips()
    return [
        SpokenClip(
            entry["id"],
            folder / name / f"{entry['id']}.ogg",
            entry["language"],
            entry["text"],
            tuple((*word,) for sentence in entry["sentences"] for word in sentence["words"]),
        )
        for entry in entries[:limit]
    ]


def sentences_said() -> dict[Path, list[tuple[str, float, float]]]:
    """What is said in each clip of all sets, sentence by sentence, with true times in s."""
    folder = unpack_clips()
    return {
        folder / entry["set"] / f"{entry['id']}.ogg": [
            (one["text"], one["start_s"], one["end_s"]) for one in entry["sentences"]
        ]
        for entry in read_manifest()
    }


def recordings(*names: str) -> list[Path]:
    """The recordings of frozen sets, each with its text beside it."""
    folder = unpack_clips()
    return [path for name in names for path in sorted((folder / name).glob("*.ogg"))]


def said(recording: Path) -> str:
    """What is said in a recording that has its text beside it."""
    return recording.with_suffix(".txt").read_text(encoding="utf-8").strip()


def measured_on(limit: int | None) -> dict[str, Any]:
    """What a result says of where it comes from; `limit` is of each set, `None` for all."""
    about = {"version": __version__, "machine": this_machine().label, "weights": mark_of(MICRO)}
    return about | {"limit": limit}
