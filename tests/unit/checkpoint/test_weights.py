"""Weights of a checkpoint, computed when they are loaded."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.checkpoint.weights import (
    STRIP_ROWS,
    Weight,
    ready_weight,
    stacked_weight,
    transposed_weight,
)
from whisper_hailo.core.types import FloatArray


def numbers(*shape: int) -> FloatArray:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def test_weight_map_changes_values_when_loaded() -> None:
    weight = ready_weight(numbers(2, 3))
    halved = weight.map(lambda array: array / 2)
    assert halved.load().tolist() == (numbers(2, 3) / 2).tolist()
    assert weight.map(np.ravel, (6,)).shape == (6,)


def test_transposed_weight_has_transposed_shape_and_values() -> None:
    weight = ready_weight(numbers(2, 3))
    transposed = transposed_weight(weight)
    assert transposed.shape == (3, 2)
    assert transposed.nbytes == weight.nbytes == 24
    assert transposed.load().tolist() == numbers(2, 3).T.tolist()


@pytest.mark.parametrize("n_rows", [1, STRIP_ROWS, STRIP_ROWS + 1, 3 * STRIP_ROWS])
def test_transposed_weight_pieces_join_to_the_whole(n_rows: int) -> None:
    weight = transposed_weight(ready_weight(numbers(4, n_rows)))
    pieces = list(weight.pieces())
    assert np.concatenate(pieces).tolist() == numbers(4, n_rows).T.tolist()


def test_stacked_weight_joins_rows() -> None:
    weight = ready_weight(numbers(2, 3))
    stacked = stacked_weight([weight, weight])
    assert stacked.shape == (4, 3)
    assert stacked.load().tolist() == [*numbers(2, 3).tolist(), *numbers(2, 3).tolist()]


def test_weight_is_made_anew_at_each_load() -> None:
    calls: list[int] = []

    def make() -> FloatArray:
        calls.append(1)
        return numbers(2, 3)

    weight = Weight((2, 3), "float32", make)
    assert calls == []
    assert [piece.shape for piece in weight.pieces()] == [(2, 3)]
    weight.load()
    assert len(calls) == 2
