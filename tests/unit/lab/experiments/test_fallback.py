"""The fallback's kept result is whole; its sounds are what they are called."""

import json

import numpy as np

from whisper_hailo_lab.experiments.fallback import RESULT, SPOKEN, music, noise


def test_the_kept_result_has_every_set() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert {row["set"] for row in result["rows"]} >= {*SPOKEN, "silence"}


def test_noise_falls_off_with_its_colour() -> None:
    for colour, low, high in ((0.0, 0.5, 2.0), (1.0, 5.0, 20.0), (2.0, 50.0, 200.0)):
        power = np.abs(np.fft.rfft(noise(8.0, colour))) ** 2
        ratio = power[4_000:4_400].mean() / power[40_000:44_000].mean()
        assert low < ratio < high


def test_music_is_loud_and_has_a_beat() -> None:
    samples = music(4.0)
    assert samples.shape == (64_000,)
    assert 0.3 < np.abs(samples).max() <= 1.0
    beats = samples.reshape(8, 8_000)
    assert np.all((beats[:, :2_000] ** 2).mean(1) > 2 * (beats[:, 2_000:4_000] ** 2).mean(1))
