"""From any rate to 16 kHz, piece by piece: nothing is heard of where a piece ends."""

from __future__ import annotations

import numpy as np
import pytest
import soxr

from tests.unit.sounds import tone
from whisper_hailo.audio.stream import Resampler
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray


def resampled(audio: FloatArray, rate_hz: int, n_piece: int) -> FloatArray:
    resampler = Resampler(rate_hz)
    pieces = [resampler.push(audio[at : at + n_piece]) for at in range(0, audio.size, n_piece)]
    return np.concatenate([*pieces, resampler.finish()])


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("n_piece", [1_000, 4_801])
def test_pieces_are_heard_as_one_sound(rate_hz: int, n_piece: int) -> None:
    heard = resampled(tone(rate_hz, 0.5).astype(np.float32), rate_hz, n_piece)
    assert heard.dtype == np.float32
    assert abs(heard.size - 8_000) <= 1
    np.testing.assert_allclose(heard[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=1e-4)


def test_it_filters_as_well_as_soxr_can_in_its_high_quality() -> None:
    """Beyond 16 bits, which its default does not promise in all versions."""
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 24_000).astype(np.float32)
    wanted = soxr.resample(noise, 48_000, 16_000, quality="HQ")
    np.testing.assert_allclose(resampled(noise, 48_000, 5_000), wanted, atol=1e-6)


def test_at_16_khz_nothing_is_done() -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 1_000).astype(np.float32)
    resampler = Resampler(16_000)
    assert resampler.push(noise) is noise
    assert resampler.finish().shape == (0,)


@pytest.mark.parametrize("rate_hz", [1_000, 768_000])
def test_the_lowest_and_the_highest_rate(rate_hz: int) -> None:
    heard = resampled(tone(rate_hz, 0.1, hz=100.0).astype(np.float32), rate_hz, 10_000)
    assert abs(heard.size - 1_600) <= 16


@pytest.mark.parametrize("rate_hz", [-1, 0, 999, 768_001])
def test_rates_that_no_sound_has(rate_hz: int) -> None:
    with pytest.raises(OptionError, match=f"^--rate is {rate_hz} Hz, expected 1000 to 768000 Hz$"):
        Resampler(rate_hz)
