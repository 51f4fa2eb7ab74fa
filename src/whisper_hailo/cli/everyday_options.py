"""The options that `-h` of `transcribe` and `batch` lists, in groups; `--help-all` lists all.

Each has sixty options or more. These are the ones that people type; the others choose backends and
graphs, or set thresholds that were measured already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Model": ("--model", "--quantize", "--threads"),
    "Language": ("--language", "--task"),
    "Words": (
        "--beam-size",
        "--initial-prompt",
        "--hotwords",
        "--word-timestamps",
    ),
    "Pauses and parts": ("--vad-min-silence", "--clip-timestamps"),
    "Speakers": ("--speakers", "--speaker-names", "--channels"),
    "Files": (
        "--format",
        "--output-dir",
        "--skip-existing",
        "--paragraphs",
        "--max-line-width",
        "--json",
    ),
    "More": ("--workers", "--verbose", "--quiet", "--config", "--help", "--help-all"),
}

EVERYDAY_OPTIONS: Final = {"transcribe": _GROUPS, "batch": _GROUPS}
"""Headings of `-h` with their options, by command; options that a command lacks are left out."""
