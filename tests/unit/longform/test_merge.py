"""Seams that random speech found: words that an edge cut, and words that come again later."""

from __future__ import annotations

import pytest

from whisper_hailo.core.types import Word
from whisper_hailo.longform.merge import seam

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
    ],
)
def test_every_word_once(left: list[Said], right: list[Said], kept: list[str]) -> None:
    before, after = words(*left), words(*right)
    n_left, n_right = seam(before, after, 42.0, 44.0)
    assert [word.text for word in before[:n_left] + after[n_right:]] == kept
