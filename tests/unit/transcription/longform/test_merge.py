"""Seams that random speech found: words that an edge cut, and words that come again later."""

from __future__ import annotations

import pytest

from whisper_hailo.core.types import Word
from whisper_hailo.transcription.longform.merge import seam

Said = tuple[float, float, str]


def words(*said: Said) -> list[Word]:
    return [Word(start, end, text, 0.9) for start, end, text in said]


@pytest.mark.parametrize(
    ("left", "right", "kept"),
    [
        pytest.param(
            [(43.92, 44.0, " tre")],
            [(44.0, 44.22, " tree"), (44.84, 45.41, " runs")],
            [" tree", " runs"],
            id="cut by the left window's end, heard whole a little later",
        ),
        pytest.param(
            [(41.14, 41.84, " very"), (41.89, 42.09, " tree")],
            [(42.0, 42.15, " ree"), (44.8, 45.3, " runs")],
            [" very", " tree", " runs"],
            id="cut by the right window's start, its neighbour left alone",
        ),
        pytest.param(
            [(41.3, 41.6, " no"), (41.7, 41.95, " no")],
            [(44.9, 45.1, " no"), (45.2, 45.5, " no")],
            [" no", " no", " no", " no"],
            id="said again after a pause longer than the overlap",
        ),
        pytest.param(
            [(41.7, 42.1, " In"), (42.1, 42.3, " the"), (42.3, 42.8, " end"), (43.1, 43.6, " all")],
            [(42.0, 42.4, " Olivia"), (44.2, 44.8, " runs")],
            [" In", " the", " end", " all", " runs"],
            id="a sentence that the right window took for a word at its start",
        ),
        pytest.param(
            [(41.2, 41.8, " runs"), (43.6, 44.0, " Olivia")],
            [(42.3, 42.8, " in"), (42.8, 43.2, " the"), (43.5, 43.8, " end"), (44.1, 44.4, " all")],
            [" runs", " in", " the", " end", " all"],
            id="a sentence that the left window took for a word at its end",
        ),
    ],
)
def test_every_word_once(left: list[Said], right: list[Said], kept: list[str]) -> None:
    before, after = words(*left), words(*right)
    n_left, n_right = seam(before, after, 42.0, 44.0)
    assert [word.text for word in before[:n_left] + after[n_right:]] == kept
