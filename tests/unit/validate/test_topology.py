"""Which arrays of two graphs can be one, and which cannot."""

from __future__ import annotations

import numpy as np

from whisper_hailo.validate.topology import alike, same_weights, signature

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((8, 12)).astype(np.float32)
MASK = np.where(np.tril(np.ones((8, 12), bool)), 0.0, -np.inf).astype(np.float32)


def test_the_same_numbers_in_another_layout_are_alike() -> None:
    assert alike(signature(WEIGHT), signature(WEIGHT.T.reshape(2, 48)))
    assert not alike(signature(WEIGHT), signature(-WEIGHT))
    assert not alike(signature(WEIGHT), signature(WEIGHT[:4]))


def test_what_leans_to_the_other_side_is_not_alike_with_the_same_ends_and_energy() -> None:
    """Mean, mean size, both ends and energy are those of its mirror image."""
    right = np.array([3.0, -3.0, 2.0, -1.0, -1.0, 0.0])
    left = -right
    assert np.isclose(np.mean(right), np.mean(left))
    assert sorted(np.abs(right)) == sorted(np.abs(left))
    assert not alike(signature(right), signature(left))


def test_a_mask_is_no_weight_of_its_size() -> None:
    assert same_weights([WEIGHT, MASK], [MASK, WEIGHT.T])
    assert not same_weights([MASK], [WEIGHT])
    assert not same_weights([WEIGHT], [MASK])
    assert not same_weights([WEIGHT], [WEIGHT + np.float32(0.01)])
    assert not same_weights([WEIGHT], [WEIGHT, MASK])
