"""Real rows of silence or zeros behind audio features of unequal lengths."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.model_sizes import features_of
from whisper_hailo.backends.padding import pad_features, pad_with_zeros
from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.protocols import Padding, SilenceKeys


def test_pad_features_repeats_silence_behind_each_row() -> None:
    keys = SilenceKeys(features_of(2, 4, seed=3), np.array([0.5, 0.5], np.float32))
    features = features_of(2, 6, 4)
    padded = pad_features(features, (Padding(10, keys),) * 2, np.array([6, 3]))
    assert (padded.shape, padded.flags.c_contiguous) == ((2, 10, 4), True)
    for row, n_positions in enumerate((6, 3)):
        np.testing.assert_array_equal(
            padded[row, :n_positions], features[row, :n_positions]
        )
        np.testing.assert_array_equal(
            padded[row, n_positions:], keys.repeat_rows(10 - n_positions)
        )


def test_pad_features_without_silence_adds_zeros() -> None:
    features = features_of(2, 6, 4)
    padded = pad_features(features, (Padding(8),) * 2, np.array([6, 3]))
    np.testing.assert_array_equal(padded[0, :6], features[0])
    assert not padded[0, 6:].any()
    assert not padded[1, 3:].any()


def test_pad_features_of_unequal_lengths_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\[5, 8\]"):
        pad_features(
            features_of(2, 6, 4), (Padding(8), Padding(None)), np.array([6, 5])
        )


def test_pad_with_zeros_of_full_rows_returns_the_features() -> None:
    features = features_of(2, 6, 4)
    assert pad_with_zeros(features, np.array([6, 6]), 6) is features
    longer = pad_with_zeros(features, np.array([6, 6]), 7)
    np.testing.assert_array_equal(longer[:, :6], features)
    assert not longer[:, 6].any()
