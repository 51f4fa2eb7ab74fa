"""Keys of the audio as words are aligned by them, and rows of it as beams trade places."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.backends.cross import (
    CrossKV,
    CrossNames,
    alignment_weights,
    heads_by_layer,
    rows_of,
)
from whisper_hailo.core.types import FloatArray

LOGS = np.log([2.0, 3.0, 1.0, 1.0])
"""Scores of three positions and of a zero row."""


def _cross() -> CrossKV:
    """Two layers of two heads of two numbers; what is asked for is in the second head of the last.

    All other keys, and all values, are seven.
    """
    names = CrossNames(("k0", "v0", "k1", "v1"), ())
    arrays = [np.full((1, 2, 4, 2), 7, np.float32) for _ in names.arrays]
    arrays[2][0, 1] = np.stack([LOGS, np.zeros(4)], axis=1)
    return CrossKV(names, tuple(arrays), ())


def _weights(query: list[float]) -> FloatArray:
    """Of one token; four zero rows follow the audio, which weigh as one with ln 4."""
    asked = np.array([[[[5, 5], query]]], np.float32)
    bias = np.zeros((1, 1, 1, 4), np.float32)
    bias[..., -1] = np.log(4)
    return alignment_weights([asked], _cross(), bias, heads_by_layer([(1, 1)]))


def test_weights_are_of_heads_own_keys_with_silence_that_follows() -> None:
    found = _weights([1, 9])
    assert found.shape == (1, 1, 1, 4)
    np.testing.assert_allclose(found[0, 0, 0], [0.2, 0.3, 0.1, 0.4], rtol=1e-6)


def test_large_scores_are_no_infinity() -> None:
    np.testing.assert_allclose(_weights([1e4, 0])[0, 0, 0], [0, 1, 0, 0], atol=1e-6)


def test_heads_come_layer_by_layer() -> None:
    pairs = [(3, 1), (2, 0), (3, 0), (2, 5)]
    assert heads_by_layer(pairs) == [(2, [0, 5]), (3, [1, 0])]


@pytest.mark.parametrize("rows", [[0, 0, 2], [1, 1, 3], [2, 3], [3, 1, 2], [1, 3, 3], [0], []])
def test_rows_are_those_that_were_asked_for(rows: list[int]) -> None:
    array = np.arange(8).reshape(4, 2)
    (found,) = rows_of([array], np.array(rows, np.int64))
    assert found.tolist() == [array[row].tolist() for row in rows]
