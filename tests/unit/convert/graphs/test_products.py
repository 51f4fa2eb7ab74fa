"""Products with wider heads, and what is folded into them: arithmetic that no step may change."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.checkpoint.weights import (
    ready_weight,
    scaled_weight,
    stacked_weight,
    transposed_weight,
    zero_weight,
)
from whisper_hailo.convert.graphs.products import (
    Linear,
    joined,
    with_wider_inputs,
    with_wider_outputs,
)
from whisper_hailo.core.types import FloatArray

N_HEADS, SIZE, WIDTH = 2, 3, 4


def numbers(*shape: int) -> FloatArray:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("has_bias", [True, False])
def test_every_head_s_outputs_are_followed_by_zeros(has_bias: bool) -> None:
    plain = Linear(ready_weight(numbers(6, 5)), ready_weight(numbers(6)) if has_bias else None)
    wide = with_wider_outputs(plain, N_HEADS, WIDTH)
    matrix = wide.matrix.load()
    assert wide.matrix.shape == matrix.shape == (8, 5)
    assert matrix.reshape(N_HEADS, WIDTH, 5)[:, :SIZE].tolist() == numbers(2, 3, 5).tolist()
    assert not matrix.reshape(N_HEADS, WIDTH, 5)[:, SIZE:].any()
    if has_bias:
        assert wide.bias is not None
        assert wide.bias.shape == (8,)
        assert wide.bias.load().tolist() == [1, 2, 3, 0, 4, 5, 6, 0]
    else:
        assert wide.bias is None


def test_what_follows_every_head_s_inputs_counts_for_nothing() -> None:
    plain = Linear(ready_weight(numbers(5, 6)), ready_weight(numbers(5)))
    wide = with_wider_inputs(plain, N_HEADS, WIDTH)
    assert wide.matrix.shape == (5, 8)
    heads = wide.matrix.load().reshape(5, N_HEADS, WIDTH)
    assert heads[:, :, :SIZE].tolist() == numbers(5, 2, 3).tolist()
    assert not heads[:, :, SIZE:].any()
    assert wide.bias is plain.bias


def test_heads_that_are_wide_enough_are_left_alone() -> None:
    plain = Linear(ready_weight(numbers(6, 6)), ready_weight(numbers(6)))
    assert with_wider_outputs(plain, N_HEADS, SIZE) is plain
    assert with_wider_inputs(plain, N_HEADS, SIZE) is plain


def test_products_of_one_input_are_stacked_in_order_and_a_missing_bias_is_zero() -> None:
    first, second = (
        Linear(ready_weight(numbers(2, 3)), ready_weight(numbers(2))),
        Linear(ready_weight(-numbers(1, 3))),
    )
    both = joined(first, second)
    assert both.matrix.load().tolist() == [[1, 2, 3], [4, 5, 6], [-1, -2, -3]]
    assert both.bias is not None
    assert both.bias.load().tolist() == [1, 2, 0]
    assert (both.matrix.shape, both.bias.shape) == ((3, 3), (3,))


def test_weights_are_made_of_others_when_they_are_loaded() -> None:
    one = ready_weight(numbers(2, 3))
    assert scaled_weight(one, 0.5).load().tolist() == (numbers(2, 3) / 2).tolist()
    assert transposed_weight(one).load().tolist() == numbers(2, 3).T.tolist()
    assert transposed_weight(one).shape == (3, 2)
    assert stacked_weight([one, one]).shape == (4, 3)
    assert zero_weight(3).load().tolist() == [0, 0, 0]
