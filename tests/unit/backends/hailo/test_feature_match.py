"""Comparison of a chip's audio features with the CPU's, and its explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whisper_hailo.backends.hailo.feature_match import (
    MIN_SIMILARITY,
    explain_features,
    match_features,
)


@pytest.fixture
def reference() -> Any:
    """Features of 50 positions and 32 channels, each channel with a mean of its own."""
    rng = np.random.default_rng(0)
    varying = rng.standard_normal((50, 32))
    return (varying + 3 * rng.standard_normal(32)).astype(np.float32)


def _noisy(reference: Any, noise: float) -> Any:
    rng = np.random.default_rng(1)
    return (reference + noise * rng.standard_normal(reference.shape)).astype(np.float32)


def test_match_features_of_the_same_array_is_close(reference: Any) -> None:
    match = match_features(reference.copy(), reference)
    assert match.is_close
    assert match.similarity == pytest.approx(1)
    assert match.gain == pytest.approx(1)
    assert match.snr_db == 100.0


def test_match_features_with_rounding_noise_is_close(reference: Any) -> None:
    match = match_features(_noisy(reference, 0.5), reference)
    assert match.is_close
    assert match.similarity > 0.8


def test_match_features_of_means_alone_is_not_close(reference: Any) -> None:
    """Any audio has nearly the same means: they must not count."""
    means = np.broadcast_to(reference.mean(axis=0), reference.shape)
    features = means + np.random.default_rng(2).standard_normal(reference.shape)
    match = match_features(features.astype(np.float32), reference)
    assert match.snr_db > 5
    assert match.similarity < MIN_SIMILARITY
    assert not match.is_close


def _transposed(array: Any) -> Any:
    return np.ascontiguousarray(array.T).reshape(array.shape)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_transposed, "transposed"),
        (lambda array: array * 0.5, "at 0.5"),
        (lambda array: array * 3, "at 3.1"),
        (lambda array: np.roll(array, 1, axis=1), "shifted by 1 channel:"),
        (lambda array: np.roll(array, -2, axis=1), "shifted by -2 channels"),
        (lambda array: np.roll(array, 7, axis=0), "shifted by 7 positions"),
        (lambda array: _transposed(np.roll(array, 3, axis=0)), "transposed and shift"),
        (lambda array: _transposed(array) * 0.5, "transposed and at 0."),
        (np.zeros_like, "all zero"),
        (np.ones_like, "the same whatever"),
        (lambda array: np.full_like(array, np.nan), "not numbers"),
    ],
)
def test_explain_features_names_the_fault(
    reference: Any, change: Any, expected: str
) -> None:
    changed = change(_noisy(reference, 0.2))
    assert not match_features(changed, reference).is_close
    assert expected in explain_features(changed, reference)


def test_explain_features_of_noise_is_empty(reference: Any) -> None:
    noise = np.random.default_rng(3).standard_normal(reference.shape)
    assert explain_features(noise.astype(np.float32), reference) == ""
