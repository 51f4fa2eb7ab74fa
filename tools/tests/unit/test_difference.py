from __future__ import annotations

import math

import numpy as np
import pytest

from whisper_hailo_tools.difference import DifferenceTally, difference


def test_difference_of_known_arrays() -> None:
    expected = np.array([3.0, -4.0])
    measured = difference(np.array([3.0, -4.1]), expected)
    assert measured.max_abs == pytest.approx(0.1)
    assert measured.mean_abs == pytest.approx(0.05)
    assert measured.relative == pytest.approx(0.1 / 4)
    assert measured.snr_db == pytest.approx(10 * math.log10(25 / 0.01))
    assert measured.psnr_db == pytest.approx(10 * math.log10(16 * 2 / 0.01))
    assert measured.cosine == pytest.approx((9 + 16.4) / math.sqrt(25 * (9 + 16.81)))


def test_difference_of_small_values_is_not_relative() -> None:
    assert difference(np.array([1e-6]), np.array([2e-6])).relative == pytest.approx(
        1e-6
    )


def test_difference_of_equal_arrays() -> None:
    measured = difference(np.zeros(3), np.zeros(3))
    assert measured.max_abs == 0
    assert measured.cosine == 1
    assert measured.to_dict()["snr_db"] is None


def test_difference_tally_of_pieces_equals_the_whole() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 100))
    tally = DifferenceTally()
    for start in range(0, 100, 30):
        tally.add(a[start : start + 30], b[start : start + 30])
    whole = difference(a, b)
    assert tally.difference().snr_db == pytest.approx(whole.snr_db)
    assert tally.difference().cosine == pytest.approx(whole.cosine)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_difference_of_non_finite_values_is_infinite(bad: float) -> None:
    measured = difference(np.array([bad, 1.0]), np.array([1.0, 1.0]))
    assert measured.max_abs == math.inf
    assert measured.snr_db == -math.inf


@pytest.mark.parametrize(("computed", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_difference_of_zeros_has_no_direction(computed: float, expected: float) -> None:
    measured = difference(np.full(3, computed), np.full(3, expected))
    assert measured.cosine == 0
    assert measured.max_abs == 1
    assert measured.psnr_db <= 0
