"""Which heads of the decoder tell the times of words."""

from __future__ import annotations

import pytest

from tests.unit.shapes import TINY
from whisper_hailo.checkpoint.alignment import alignment_heads

UPPER_HALF = tuple((layer, head) for layer in (2, 3) for head in range(6))
"""Of four layers with six heads."""


@pytest.mark.parametrize("pair", [[0, 0], [3, 5], [0, 5], [3, 0]])
def test_the_first_and_the_last_are_taken(pair: list[int]) -> None:
    assert alignment_heads({"alignment_heads": [pair]}, TINY) == (tuple(pair),)


@pytest.mark.parametrize("pair", [[4, 0], [0, 6], [-1, 0], [0, -1]])
def test_with_one_that_the_decoder_lacks_its_upper_half_is_taken(pair: list[int]) -> None:
    assert alignment_heads({"alignment_heads": [[1, 1], pair]}, TINY) == UPPER_HALF


def test_each_counts_once() -> None:
    heads = [[3, 1], [2, 5], [3, 1]]
    assert alignment_heads({"alignment_heads": heads}, TINY) == ((2, 5), (3, 1))
