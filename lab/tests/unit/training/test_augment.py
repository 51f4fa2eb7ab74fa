"""Disturbances: levels, limits, reproducibility."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from lab.training.augment import (
    ALL_DISTURBANCES,
    NoiseBank,
    Shares,
    band_limited,
    clipped,
    coded,
    disturbed,
    level,
    reverberant,
    without_speech,
)
from lab.training.voices import (
    ENGINES,
    UNHEARD_ESPEAK,
    UNHEARD_VARIANTS,
    task_voice,
    trained_voice,
    unheard_task_voice,
    unheard_voice,
)


@pytest.fixture(scope="module")
def bank() -> NoiseBank:
    return NoiseBank(seed=4)


@pytest.mark.slow
def test_noise_bank_crops_have_unit_power(bank: NoiseBank) -> None:
    rng = np.random.default_rng(0)
    powers = [float(np.square(bank.crop(400_000, rng)).mean()) for _ in range(8)]
    assert powers == pytest.approx([1.0] * 8, abs=0.3)


def test_level_is_of_the_louder_half() -> None:
    tone = np.sin(np.arange(16_000) * 0.3).astype(np.float32)
    with_pause = np.concatenate([tone, np.zeros(16_000, np.float32)])
    assert level(with_pause) == pytest.approx(0.5**0.5, rel=0.01)


@pytest.mark.parametrize("shares", [Shares(), ALL_DISTURBANCES])
def test_disturbed_stays_within_full_scale(bank: NoiseBank, shares: Shares) -> None:
    rng = np.random.default_rng(1)
    speech = np.sin(np.arange(8000) * 0.2).astype(np.float32)
    for _ in range(50):
        result = disturbed(speech, bank, rng, shares)
        assert result.dtype == np.float32
        assert result.shape == speech.shape
        assert np.abs(result).max() <= 1.0


def test_without_speech_of_one_seed_is_equal(bank: NoiseBank) -> None:
    pairs = [without_speech(6000, bank, np.random.default_rng(k)) for k in (3, 3)]
    np.testing.assert_array_equal(pairs[0], pairs[1])


def test_band_limited_removes_high_frequencies() -> None:
    hiss = np.sin(np.arange(16_000) * np.pi * 0.97).astype(np.float32)
    assert level(band_limited(hiss, np.random.default_rng(5))) < 0.1 * level(hiss)


def test_reverberant_adds_a_tail_only() -> None:
    click = np.zeros(16_000, np.float32)
    click[4000] = 1.0
    wet = reverberant(click, np.random.default_rng(2))
    assert wet.shape == click.shape
    assert np.abs(wet[:3999]).max() < 1e-5
    assert wet[4000] == pytest.approx(1.0, abs=0.2)
    assert np.square(wet[4400:5600]).sum() > 10 * np.square(wet[10_000:]).sum()


def test_clipped_limits_the_peaks() -> None:
    tone = np.sin(np.arange(4000) * 0.1).astype(np.float32)
    peak = np.abs(clipped(tone, np.random.default_rng(2))).max()
    assert 0.14 < peak < 0.61


def test_coded_keeps_length_and_position() -> None:
    time_s = np.arange(16_123) / 16_000
    tone = (0.3 * np.sin(2 * np.pi * 440 * time_s) * (time_s > 0.5)).astype(np.float32)
    decoded = coded(tone, np.random.default_rng(6))
    assert decoded.dtype == np.float32
    assert decoded.shape == tone.shape
    assert np.corrcoef(decoded, tone)[0, 1] > 0.95
    assert not np.array_equal(decoded, tone)


def test_trained_voice_is_no_unheard_voice() -> None:
    rng = Random(2)
    trained = {trained_voice(rng).name.split("+")[-1] for _ in range(5000)}
    unheard = {unheard_voice(rng).name.split("+")[-1] for _ in range(500)}
    assert not trained & unheard
    assert {*UNHEARD_ESPEAK, *UNHEARD_VARIANTS} <= unheard


def test_voice_as_json_has_its_settings() -> None:
    entry = trained_voice(Random(1)).as_json()
    assert sorted(entry) == ["engine", "name", "pitch", "rate", "warp"]


@pytest.mark.parametrize("language", ["en", "de"])
def test_task_voice_is_no_unheard_task_voice(language: str) -> None:
    rng = Random(4)
    trained = {task_voice(rng, language).name.split("+")[-1] for _ in range(5000)}
    unheard = {
        unheard_task_voice(rng, language).name.split("+")[-1] for _ in range(500)
    }
    assert not trained & unheard
    assert {*UNHEARD_ESPEAK, *UNHEARD_VARIANTS} <= unheard


def test_task_voice_uses_the_given_engines() -> None:
    rng = Random(5)
    assert {task_voice(rng, "en").engine for _ in range(500)} == set(ENGINES)
    assert {task_voice(rng, "en", ("espeak",)).engine for _ in range(500)} == {"espeak"}
    assert {task_voice(rng, "de").engine for _ in range(100)} == {"espeak"}


def test_task_voice_has_a_name_with_variants() -> None:
    rng = Random(6)
    names = [
        draw(rng, "en").name
        for draw in (task_voice, unheard_task_voice)
        for _ in range(900)
    ]
    assert not [name for name in names if name.startswith("en-gb+")]
