"""Turns of speakers, and the files that hold them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch of speech of one person."""

    start_s: float
    end_s: float
    speaker: str


def read_rttm(text: str) -> dict[str, list[Turn]]:
    """Return the turns of each recording of a file in NIST's format."""
    turns: dict[str, list[Turn]] = defaultdict(list)
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        start_s = float(fields[3])
        turns[fields[1]].append(Turn(start_s, start_s + float(fields[4]), fields[7]))
    return turns


def write_rttm(name: str, turns: Iterable[Turn]) -> str:
    """Return turns in NIST's format."""
    lines = [
        f"SPEAKER {name} 1 {turn.start_s:.3f} {turn.end_s - turn.start_s:.3f} "
        f"<NA> <NA> {turn.speaker} <NA> <NA>\n"
        for turn in turns
    ]
    return "".join(lines)
