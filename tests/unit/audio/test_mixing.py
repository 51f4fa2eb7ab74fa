"""Channels are averaged, unless they cancel each other out."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.fakes.sounds import noisy_speech, write
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.mixing import ChannelMixer
from whisper_hailo.core.types import FloatArray

SPEECH = noisy_speech(4.0).astype(np.float32)
OTHER = np.random.default_rng(9).standard_normal(SPEECH.size).astype(np.float32) / 10


def mix_blocks(*channels: FloatArray) -> FloatArray:
    """Return the mix of channels that arrive in blocks of 8,192 frames."""
    mixer = ChannelMixer("a.wav")
    samples = np.stack(channels, axis=1)
    starts = range(0, len(samples), 8192)
    return np.concatenate(
        [mixer.mix(samples[start : start + 8192]) for start in starts]
    )


@pytest.mark.parametrize("gain", [-1.0, -0.9, -0.75])
def test_mix_of_inverted_channels_is_the_louder_one(gain: float) -> None:
    mixed = mix_blocks(SPEECH, np.float32(gain) * SPEECH)
    np.testing.assert_array_equal(mixed, SPEECH)
    mixed = mix_blocks(np.float32(gain) * SPEECH, SPEECH)
    np.testing.assert_array_equal(np.abs(mixed), np.abs(SPEECH))


@pytest.mark.parametrize(
    "other", [SPEECH, OTHER, 0 * SPEECH, np.float32(-0.3) * SPEECH, SPEECH - OTHER]
)
def test_mix_of_other_channels_is_their_mean(other: FloatArray) -> None:
    mean = np.stack([SPEECH, other], axis=1).mean(axis=1, dtype=np.float32)
    np.testing.assert_array_equal(mix_blocks(SPEECH, other), mean)


def test_mix_of_silence_is_silence() -> None:
    silence = np.zeros(20_000, np.float32)
    np.testing.assert_array_equal(mix_blocks(silence, silence), silence)


def test_mix_of_channels_that_cancel_later_changes_in_seconds() -> None:
    left = np.concatenate([SPEECH, SPEECH])
    right = np.concatenate([SPEECH, np.float32(-0.9) * SPEECH])
    mixed = mix_blocks(left, right)
    np.testing.assert_array_equal(mixed[: SPEECH.size], SPEECH)
    np.testing.assert_array_equal(mixed[-8192:], SPEECH[-8192:])


@pytest.mark.parametrize("rate_hz", [16_000, 44_100])
def test_load_audio_inverted_channel_is_audible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rate_hz: int
) -> None:
    mono: NDArray[np.float64] = noisy_speech(1.0)
    path = write(tmp_path / "a.wav", np.stack([mono, -mono], axis=1), rate_hz)
    with caplog.at_level(logging.DEBUG):
        audio = load_audio(path)
    assert float(np.abs(audio).max()) > 0.1
    assert caplog.text.count("a.wav") == 1
