from __future__ import annotations

import math

import numpy as np
import pytest

from whisper_hailo_tools.difference import DifferenceTally, difference


def test_difference_of_known_arrays() -> None:
    expected = np.array([3.0, -4.0])
    found = difference(np.array([3.0, -4.1]), expected)
    assert found.max_abs == pytest.approx(0.1)
    assert found.mean_abs == pytest.approx(0.05)
    assert found.relative == pytest.approx(0.1 / 4)
    assert found.snr_db == pytest.approx(10 * math.log10(25 / 0.01))
    assert found.psnr_db == pytest.approx(10 * math.log10(16 * 2 / 0.01))
    assert found.cosine == pytest.approx((9 + 16.4) / math.sqrt(25 * (9 + 16.81)))


def test_difference_of_small_values_is_not_relative() -> None:
    assert difference(np.array([1e-6]), np.array([2e-6])).relative == pytest.approx(
        1e-6
    )


def test_difference_of_equal_arrays() -> None:
    found = difference(np.zeros(3), np.zeros(3))
    assert found.max_abs == 0
    assert found.cosine == 1
    assert found.to_dict()["snr_db"] is None


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
    found = difference(np.array([bad, 1.0]), np.array([1.0, 1.0]))
    assert found.max_abs == math.inf
    assert found.snr_db == -math.inf


def test_difference_of_zeros_has_no_direction() -> None:
    for got, expected in ((np.zeros(3), np.ones(3)), (np.ones(3), np.zeros(3))):
        found = difference(got, expected)
        assert found.cosine == 0
        assert found.max_abs == 1
        assert found.psnr_db <= 0
