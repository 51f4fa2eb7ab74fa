"""Disturbances: levels, limits, reproducibility."""

import numpy as np
import pytest
from training.augment import NoiseBank, band_limited, disturbed, level, without_speech


@pytest.fixture(scope="module")
def bank() -> NoiseBank:
    return NoiseBank(seed=4)


def test_noise_has_unit_power_over_its_whole_length(bank: NoiseBank) -> None:
    rng = np.random.default_rng(0)
    powers = [float(np.square(bank.crop(400_000, rng)).mean()) for _ in range(8)]
    assert powers == pytest.approx([1.0] * 8, abs=0.3)


def test_level_is_that_of_the_louder_half() -> None:
    tone = np.sin(np.arange(16_000) * 0.3).astype(np.float32)
    with_pause = np.concatenate([tone, np.zeros(16_000, np.float32)])
    assert level(with_pause) == pytest.approx(0.5**0.5, rel=0.01)


def test_disturbed_speech_stays_within_full_scale(bank: NoiseBank) -> None:
    rng = np.random.default_rng(1)
    speech = np.sin(np.arange(8000) * 0.2).astype(np.float32)
    for _ in range(50):
        result = disturbed(speech, bank, rng)
        assert result.dtype == np.float32
        assert result.shape == speech.shape
        assert np.abs(result).max() <= 1.0


def test_the_same_generator_gives_the_same_silence(bank: NoiseBank) -> None:
    pairs = [without_speech(6000, bank, np.random.default_rng(k)) for k in (3, 3)]
    np.testing.assert_array_equal(pairs[0], pairs[1])


def test_band_limit_takes_away_what_lies_above() -> None:
    hiss = np.sin(np.arange(16_000) * np.pi * 0.97).astype(np.float32)
    assert level(band_limited(hiss, np.random.default_rng(5))) < 0.1 * level(hiss)
