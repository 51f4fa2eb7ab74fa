"""The plain spectrogram is the program's own, to what single precision leaves."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo_tools.difference import difference
from whisper_hailo_tools.validate.reference_mel import reference_mel


@pytest.mark.parametrize("n_mels", [80, 128])
def test_reference_mel_of_noise_is_log_mel(n_mels: int) -> None:
    audio = np.random.default_rng(0).standard_normal(8_000).astype(np.float32)
    expected = reference_mel(audio, n_mels)
    assert expected.shape == (n_mels, 50)
    assert difference(log_mel(audio, n_mels), expected).snr_db > 110


def test_reference_mel_of_a_tone_is_largest_at_its_bin() -> None:
    seconds = np.arange(16_000) / 16_000
    tone = np.sin(2 * np.pi * 500 * seconds).astype(np.float32)
    mel = reference_mel(tone, 80)
    # 500 Hz are 7.5 mel of 45.2, which 81 steps divide: 13.4, between two filters.
    assert mel[:, 50].argmax() in (12, 13)
