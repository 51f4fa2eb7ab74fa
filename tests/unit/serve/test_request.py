"""Options of requests, priorities, and names and languages as one string."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.micro_service import OPTIONS
from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.request import (
    MAX_HOTWORD_CHARACTERS,
    MAX_PROMPT_CHARACTERS,
    Choices,
    Priority,
    RequestDefaults,
    join_hotwords,
    join_languages,
)


def test_priority_for_length_puts_long_after_short() -> None:
    assert Priority.INTERACTIVE.for_length(30.0) is Priority.INTERACTIVE
    assert Priority.INTERACTIVE.for_length(30.1) is Priority.LONG
    for other in (Priority.LIVE, Priority.BATCH):
        assert other.for_length(3600.0) is other
    assert sorted(Priority) == [
        Priority.LIVE,
        Priority.INTERACTIVE,
        Priority.LONG,
        Priority.BATCH,
    ]


def test_join_hotwords_takes_a_thousand_names() -> None:
    names = [f"lamp {n}" for n in range(2000)]
    assert join_hotwords(names) == ", ".join(names[:1000])


def test_join_hotwords_has_bounded_length() -> None:
    names = ["x" * 1000] * 1000
    assert 31 << 10 < len(join_hotwords(names)) <= MAX_HOTWORD_CHARACTERS


def test_join_hotwords_drops_what_is_no_name() -> None:
    names = ["lamp", " ", "a\ud800", "<|endoftext|>", "attic\nheater", "hall, left"]
    assert join_hotwords(names) == "lamp, hall  left"


def test_join_languages_of_an_empty_list_is_none() -> None:
    assert join_languages([]) is None
    assert join_languages(["de", "en"]) == "de,en"


def test_with_choices_long_prompt_keeps_its_end() -> None:
    options, _ = RequestDefaults(OPTIONS).with_choices(
        Choices(prompt="word " * 200_000 + "end")
    )
    prompt = options.prompts.initial_prompt
    assert prompt is not None
    assert len(prompt) == MAX_PROMPT_CHARACTERS
    assert prompt.endswith("end")


def test_with_choices_without_any_keeps_the_defaults() -> None:
    defaults = RequestDefaults(OPTIONS)
    choices = Choices(prompt=" ", hotwords=" ", temperature=0.0)
    assert defaults.with_choices(choices) == (defaults.options, defaults.long)


def test_with_choices_language_is_not_detected_again() -> None:
    defaults = RequestDefaults(replace(OPTIONS, detect_each_window=True))
    options, _ = defaults.with_choices(Choices(language="de"))
    assert options.language == "de"
    assert not options.detect_each_window
    options, _ = defaults.with_choices(Choices())
    assert options.detect_each_window


def test_with_choices_speech_selects_the_detector() -> None:
    _, long = RequestDefaults(OPTIONS).with_choices(Choices(speech={}))
    assert long.strategy == "vad"


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        (Choices(hotwords="x" * (MAX_HOTWORD_CHARACTERS + 1)), "hotwords"),
        (Choices(temperature=1e-4), "temperature"),
    ],
    ids=["hotwords", "temperature"],
)
def test_with_choices_beyond_limits_is_refused(choices: Choices, name: str) -> None:
    with pytest.raises(OptionError, match=name):
        RequestDefaults(OPTIONS).with_choices(choices)
