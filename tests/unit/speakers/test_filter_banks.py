"""Filter banks against values of kaldi-native-fbank."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from whisper_hailo.core.types import FloatArray
from whisper_hailo.speakers.filter_banks import log_filter_banks, mel_filters

GOLDEN = Path(__file__).with_name("filter_banks.json")
"""Written by `make_filter_banks.py` beside it."""


def chirp() -> FloatArray:
    """Return 0.1 s of a rising tone in noise with an offset, then digital silence."""
    times = np.arange(1600) / 16_000
    tone = 0.1 + 0.4 * np.sin(2 * np.pi * (200 * times + 30_000 * times**2))
    # Without noise single precision decides what is far from the tone.
    tone += 0.02 * (np.sin(np.arange(1600) * 12.9898) * 43758.5453 % 1)
    return np.concatenate([tone, np.zeros(480)]).astype(np.float32)


def test_log_filter_banks_equal_kaldi_s() -> None:
    golden = np.array(json.loads(GOLDEN.read_text()))
    banks = log_filter_banks(chirp())
    assert banks.shape == (11, 80)
    assert banks.dtype == np.float32
    np.testing.assert_allclose(banks, golden, atol=2e-3)


def test_log_filter_banks_of_parts_equal_the_whole() -> None:
    audio = np.tile(chirp(), 30)
    whole = log_filter_banks(audio)
    part = log_filter_banks(audio[1600 * 2 :])
    np.testing.assert_array_equal(whole[20:], part)


@pytest.mark.parametrize(
    ("n_samples", "n_frames"), [(0, 0), (399, 0), (400, 1), (560, 2)]
)
def test_log_filter_banks_have_whole_frames_only(n_samples: int, n_frames: int) -> None:
    assert log_filter_banks(np.zeros(n_samples, np.float32)).shape == (n_frames, 80)


def test_mel_filters_do_not_reach_below_20_hz() -> None:
    filters = mel_filters()
    assert filters.shape == (256, 80)
    assert not filters[0].any()
    assert (filters.max(axis=0) > 0).all()
