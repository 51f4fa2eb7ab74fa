"""Scales by hand, and histograms against the data they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo_tools.emulate.statistics import (
    N_BINS,
    Histogram,
    Scale,
    choose_scale,
    expected_error,
    rounded_weights,
    scale_of,
)


def histogram_of(*arrays: object) -> Histogram:
    histogram = Histogram()
    for array in arrays:
        histogram.add(np.asarray(array))
    return histogram


def test_scale_of_spans_its_range_and_keeps_zero() -> None:
    scale = scale_of(-1.0, 3.0, 8)
    assert (scale.low, scale.high) == (-64, 191)  # 1 / (4 / 255) = 63.75
    assert scale.step == pytest.approx(4 / 255, rel=1e-7)
    values = np.array([0.0, 0.016, -5.0, 5.0, 1.0], np.float32)
    rounded_values = scale.rounded(values)
    expected = np.array([0, 1, -64, 191, 64]) * 4 / 255
    np.testing.assert_allclose(rounded_values, expected, rtol=1e-6)
    assert rounded_values[0] == 0.0


@pytest.mark.parametrize(
    ("low", "high", "bits", "expected"),
    [
        (0.0, 255.0, 8, Scale(1.0, 0, 255)),
        (2.0, 255.0, 8, Scale(1.0, 0, 255)),  # widened to hold zero
        (-255.0, -3.0, 8, Scale(1.0, -255, 0)),
        (-128.0, 127.0, 8, Scale(1.0, -128, 127)),
        (0.0, 65535.0, 16, Scale(1.0, 0, 65535)),
        (0.0, 0.0, 8, Scale(1.0, 0, 255)),
    ],
)
def test_scale_of_known_ranges(
    low: float, high: float, bits: int, expected: Scale
) -> None:
    assert scale_of(low, high, bits) == expected


def test_scale_rounds_halves_to_even() -> None:
    rounded_values = Scale(2.0, -8, 7).rounded(
        np.array([1.0, 3.0, 5.0, -1.0, -3.0], np.float32)
    )
    np.testing.assert_array_equal(rounded_values, [0, 4, 4, 0, -4])


def test_rounded_weights_are_symmetric_per_channel() -> None:
    weights = np.array([[127.0, 0.5], [63.4, -0.1], [-126.6, 0.0]], np.float32)
    rounded_values = rounded_weights(weights, 8, axis=1)
    np.testing.assert_array_equal(rounded_values[:, 0], [127, 63, -127])
    second = np.array([127, -25, 0]) * 0.5 / 127
    np.testing.assert_allclose(rounded_values[:, 1], second, rtol=1e-6)
    transposed = rounded_weights(weights.T, 8, axis=0)
    np.testing.assert_array_equal(transposed, rounded_values.T)
    zeros = np.zeros((2, 2), np.float32)
    np.testing.assert_array_equal(rounded_weights(zeros, 8, 0), zeros)
    row = np.array([[7.0, 3.4, -6.6]], np.float32)
    np.testing.assert_array_equal(rounded_weights(row, 4, axis=0), [[7, 3, -7]])


def test_histogram_counts_any_order_of_magnitude() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal(5000) * size for size in (1e-3, 1.0, 40.0)]
    histogram = histogram_of(np.zeros(7), *parts, np.array([np.inf, -np.inf, np.nan]))
    values = np.concatenate([np.zeros(7), *parts])
    assert histogram.n_values == values.size
    assert histogram.low == values.min()
    assert histogram.high == values.max()
    middles, counts = histogram.centres()
    span = 2 * 1.1 * np.abs(values).max()
    width = span / N_BINS * 2
    assert counts.sum() == values.size
    mean = np.sum(middles * counts) / values.size
    assert mean == pytest.approx(values.mean(), abs=width)
    assert middles.size <= N_BINS


def test_histogram_of_zeros_gives_zeros() -> None:
    scale = choose_scale(histogram_of(np.zeros(10)), 8)
    np.testing.assert_array_equal(scale.rounded(np.zeros(3, np.float32)), np.zeros(3))


@pytest.mark.parametrize("clip", [1.0, 0.5, 0.2])
def test_expected_error_is_the_true_one(clip: float) -> None:
    values = np.random.default_rng(1).standard_normal(200_000).astype(np.float32)
    histogram = histogram_of(values)
    scale = scale_of(histogram.low * clip, histogram.high * clip, 8)
    errors = values - scale.rounded(values)
    true_error = float(np.mean(errors**2, dtype=np.float64))
    error = expected_error(*histogram.centres(), scale)
    assert error == pytest.approx(true_error, rel=0.03)


def test_choose_scale_clips_rare_outliers() -> None:
    rng = np.random.default_rng(2)
    values = rng.standard_normal(100_000).astype(np.float32)
    values[:5] = 100.0
    histogram = histogram_of(values)

    def error(scale: Scale) -> float:
        return float(np.mean((values - scale.rounded(values)) ** 2))

    assert error(choose_scale(histogram, 8)) <= error(scale_of(histogram.low, 100.0, 8))
    both = histogram_of(np.linspace(-1, 1, 20_001).repeat(10), [-30.0, 30.0])
    best = choose_scale(both, 8)
    for end in (-best.low * best.step, best.high * best.step):
        assert end < 20, "a fraction of both ends, where a value at each lies far out"


@pytest.mark.parametrize("bits", [8, 16])
def test_choose_scale_uses_all_bits(bits: int) -> None:
    values = np.random.default_rng(3).standard_normal(5000)
    values[:3] = 60.0
    scale = choose_scale(histogram_of(values), bits)
    assert scale.high - scale.low == 2**bits - 1


def test_histogram_is_symmetric_around_zero() -> None:
    histogram = histogram_of([0.5], np.linspace(-40, 0, 4001))
    middles, counts = histogram.centres()
    assert np.sum(middles * counts) / counts.sum() == pytest.approx(-20, abs=0.05)
