"""Which heads of the decoder tell the times of words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.shapes import TINY
from whisper_hailo.checkpoint.config import alignment_heads

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


def test_heads_are_the_decoders_where_the_encoder_has_others() -> None:
    dims = replace(TINY, n_encoder_heads=12, n_decoder_layers=2)
    assert alignment_heads({}, dims) == tuple((1, head) for head in range(6))
    assert alignment_heads({"alignment_heads": [[1, 5]]}, dims) == ((1, 5),)
