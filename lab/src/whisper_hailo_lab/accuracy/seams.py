"""Seams of windows in the segments of long recordings: words and sentences that they cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from whisper_hailo.core.types import Segment
from whisper_hailo.decoding.words import ends_sentence
from whisper_hailo_lab.tables import Table, make_table

REACH_S: Final = 2.5
"""A segment that begins later in its window begins at a time of the model, not at the seam: windows
share 2 s."""

_GLUED: Final = tuple("-',.%")
"""What the rest of a written word begins with."""


@dataclass(frozen=True, slots=True)
class SeamCounts:
    """Seams of a recording.

    Attributes:
        n_seams: two segments that meet where a window begins.
        n_in_word: the second one begins with the rest of a word.
        n_in_sentence: the first one does not end a sentence, or the second begins small.
    """

    n_seams: int
    n_in_word: int
    n_in_sentence: int


def count_seams(segments: Sequence[Segment]) -> SeamCounts:
    """Count the seams between the segments of a recording."""
    n_seams = 0
    n_in_word = 0
    n_in_sentence = 0
    for first, second in pairwise(segments):
        is_near = second.start_s - second.window_start_s <= REACH_S
        if first.window_start_s == second.window_start_s or not is_near:
            continue
        n_seams += 1
        n_in_word += second.text.startswith(_GLUED)
        is_open = not ends_sentence(first.text) or second.text[:1].islower()
        n_in_sentence += is_open
    return SeamCounts(n_seams, n_in_word, n_in_sentence)


def compare_seams(systems: Mapping[str, Sequence[SeamCounts]]) -> Table:
    """Return a line per system over all of its recordings."""
    rows = [
        {
            "name": name,
            "recordings": len(counts),
            "seams": sum(count.n_seams for count in counts),
            "in_word": sum(count.n_in_word for count in counts),
            "in_sentence": sum(count.n_in_sentence for count in counts),
        }
        for name, counts in systems.items()
    ]
    return make_table(
        rows,
        (
            ("system", "{name}"),
            ("long recordings", "{recordings}"),
            ("segments that meet at a seam", "{seams}"),
            ("within a word", "{in_word}"),
            ("within a sentence", "{in_sentence}"),
        ),
    )
