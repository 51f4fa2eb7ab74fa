"""How the options of decoding are typed: their own names, and those of other programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import pytest

from whisper_hailo.core.flags import flag_of, typed_name
from whisper_hailo.decoding.options import (
    PADDINGS,
    PRESETS,
    AntiRepetition,
    DecodingOptions,
    WordOptions,
)


def options_of(kind: type) -> Iterator[Field[Any]]:
    """All that have a flag, at any depth."""
    for one in fields(kind):
        if flag_of(one) is not None:
            yield one
        elif one.default_factory is not MISSING and is_dataclass(one.default_factory):
            yield from options_of(one.default_factory)  # type: ignore[arg-type]


def every() -> dict[str, Field[Any]]:
    """By their names, those of made options."""
    made = DecodingOptions(words=WordOptions()), AntiRepetition(), WordOptions()
    return {one.name: one for options in made for one in options_of(type(options))}


ALL = tuple(every())

OTHER_NAMES = {
    "language": ("-l",),
    "logprob": ("--log-prob-threshold",),
    "no_repeat_ngram": ("--no-repeat-ngram-size",),
    "initial_prompt": ("--prompt",),
    "hallucination_silence_s": ("--hallucination-silence-threshold",),
}
"""Of OpenAI Whisper, faster-whisper and whisper.cpp."""

TYPED = {
    "anti_repetition": "--preset",
    "max_initial_timestamp_s": "--max-initial-timestamp",
    "no_speech": "--no-speech-threshold",
    "logprob": "--logprob-threshold",
    "compression_ratio": "--compression-ratio-threshold",
    "suppress": "--suppress-tokens",
    "max_per_second": "--max-tokens-per-second",
    "words": "--word-timestamps",
    "prepended": "--prepend-punctuations",
    "appended": "--append-punctuations",
    "hallucination_silence_s": "--hallucination-silence",
}
"""Where it is not the field's own name."""


def how(name: str) -> Any:
    return flag_of(every()[name])


@pytest.mark.parametrize("name", ALL)
def test_an_option_has_its_name_and_those_that_users_of_other_programs_know(name: str) -> None:
    own = TYPED.get(name, "--" + name.replace("_", "-"))
    assert typed_name(every()[name]) == (own[2:] if how(name).settings_only else own)
    short = (how(name).short,) if how(name).short else ()
    assert (*short, *how(name).also) == OTHER_NAMES.get(name, ())


def test_no_name_stands_for_two_options() -> None:
    names = [name for one in ALL for name in (typed_name(every()[one]), *how(one).also)]
    assert len(set(names)) == len(names)
    assert set(OTHER_NAMES) | set(TYPED) <= set(ALL)


def test_some_options_are_one_of_a_few_names() -> None:
    choices = {name: how(name).choices for name in ALL if how(name).choices}
    tasks = ("transcribe", "translate")
    assert choices == {"task": tasks, "pad_with": PADDINGS, "anti_repetition": tuple(PRESETS)}
    assert how("anti_repetition").parse("balanced") == PRESETS["balanced"]


@pytest.mark.parametrize(
    "name", ["no_speech", "logprob", "compression_ratio", "max_initial_timestamp_s"]
)
def test_thresholds_are_switched_off_by_none(name: str) -> None:
    assert how(name).parse("none") is None
    assert how(name).parse("None ") is None
    assert how(name).parse("0.5") == 0.5
    with pytest.raises(ValueError, match="a number, or none"):
        how(name).parse("off")


@pytest.mark.parametrize(
    ("typed", "ids"),
    [("5", (5,)), ("5,6", (5, 6)), (" 7 , 8,", (7, 8)), ("0", (0,)), ("", ()), ("-1", None),
     ("-1,5", None)],
)  # fmt: skip
def test_ids_that_are_never_taken_have_commas_between(
    typed: str, ids: tuple[int, ...] | None
) -> None:
    """-1 is the model's own list, as in OpenAI Whisper."""
    assert how("suppress").parse(typed) == ids


@pytest.mark.parametrize("typed", ["-2", "5,-2", "a", "5;6", "1.5"])
def test_what_is_no_id_is_refused(typed: str) -> None:
    with pytest.raises(ValueError, match="token ids with commas between"):
        how("suppress").parse(typed)
