"""Which voices are trained on."""

from random import Random

import pytest
from training.voices import (
    ENGINES,
    UNHEARD_ESPEAK,
    UNHEARD_VARIANTS,
    task_voice,
    trained_voice,
    unheard_task_voice,
    unheard_voice,
)


def test_unheard_voices_are_never_trained_on() -> None:
    rng = Random(2)
    trained = {trained_voice(rng).name.split("+")[-1] for _ in range(5000)}
    unheard = {unheard_voice(rng).name.split("+")[-1] for _ in range(500)}
    assert not trained & unheard
    assert {*UNHEARD_ESPEAK, *UNHEARD_VARIANTS} <= unheard


def test_a_voice_writes_its_settings() -> None:
    entry = trained_voice(Random(1)).as_json()
    assert sorted(entry) == ["engine", "name", "pitch", "rate", "warp"]


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_language_trains_on_unheard_voices(language: str) -> None:
    rng = Random(4)
    trained = {task_voice(rng, language).name.split("+")[-1] for _ in range(5000)}
    unheard = {unheard_task_voice(rng, language).name.split("+")[-1] for _ in range(500)}
    assert not trained & unheard
    assert {*UNHEARD_ESPEAK, *UNHEARD_VARIANTS} <= unheard


def test_engines_that_are_left_out_do_not_speak() -> None:
    rng = Random(5)
    assert {task_voice(rng, "en").engine for _ in range(500)} == set(ENGINES)
    assert {task_voice(rng, "en", ("espeak",)).engine for _ in range(500)} == {"espeak"}
    assert {task_voice(rng, "de").engine for _ in range(100)} == {"espeak"}


def test_no_task_voice_has_the_name_that_ignores_variants() -> None:
    rng = Random(6)
    names = [draw(rng, "en").name for draw in (task_voice, unheard_task_voice) for _ in range(900)]
    assert not [name for name in names if name.startswith("en-gb+")]
