"""The frozen clips of the bundled model."""

from __future__ import annotations

from pathlib import Path

from whisper_hailo_lab.clip_archives import unpack_clips


def find_clips(*sets: str) -> list[Path]:
    """Return the recordings of frozen sets, each with its text beside it."""
    folder = unpack_clips()
    return [path for name in sets for path in sorted((folder / name).glob("*.ogg"))]


def text_beside(recording: Path) -> str:
    """Return the words of a recording that has its text beside it."""
    return recording.with_suffix(".txt").read_text(encoding="utf-8").strip()
