"""Seams of windows between segments, and the words and sentences that they cut."""

from __future__ import annotations

import pytest

from whisper_hailo.core.types import Segment
from whisper_hailo_lab.accuracy.seams import SeamCounts, compare_seams, count_seams


def segment(text: str, start_s: float, window_start_s: float) -> Segment:
    return Segment(
        start_s, start_s + 1, text, (), -0.2, 0.0, window_start_s=window_start_s
    )


@pytest.mark.parametrize(
    ("first", "second", "counts"),
    [
        ("It ended.", "Another began.", (1, 0, 0)),
        ("the lovely April", "of her prime.", (1, 0, 1)),
        ("It ended.", "but went on.", (1, 0, 1)),
        ("wieder T", "-Rex lief.", (1, 1, 1)),
    ],
)
def test_count_seams_counts_cut_words_and_sentences(
    first: str, second: str, counts: tuple[int, int, int]
) -> None:
    segments = [segment(first, 15.0, 0.0), segment(second, 18.5, 17.0)]
    assert count_seams(segments) == SeamCounts(*counts)


def test_count_seams_leaves_out_other_boundaries() -> None:
    same_window = [segment("and", 3.0, 0.0), segment("so", 4.0, 0.0)]
    late_in_window = [segment("and", 15.0, 0.0), segment("so", 20.0, 17.0)]
    assert count_seams(same_window) == SeamCounts(0, 0, 0)
    assert count_seams(late_in_window) == SeamCounts(0, 0, 0)


def test_compare_seams_sums_recordings() -> None:
    table = compare_seams({"ours": [SeamCounts(2, 1, 1), SeamCounts(3, 0, 1)]})
    assert "| ours | 2 | 5 | 1 | 2 |" in table.markdown()
