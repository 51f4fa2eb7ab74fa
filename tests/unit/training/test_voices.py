"""Which voices are trained on."""

from random import Random

from training.voices import UNHEARD_ESPEAK, UNHEARD_VARIANTS, trained_voice, unheard_voice


def test_unheard_voices_are_never_trained_on() -> None:
    rng = Random(2)
    trained = {trained_voice(rng).name.split("+")[-1] for _ in range(5000)}
    unheard = {unheard_voice(rng).name.split("+")[-1] for _ in range(500)}
    assert not trained & unheard
    assert {*UNHEARD_ESPEAK, *UNHEARD_VARIANTS} <= unheard


def test_a_voice_writes_its_settings() -> None:
    entry = trained_voice(Random(1)).as_json()
    assert sorted(entry) == ["engine", "name", "pitch", "rate", "warp"]
