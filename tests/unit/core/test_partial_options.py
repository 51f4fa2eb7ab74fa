"""Options that were given, on a command line or by name, in the place of the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, keywords_of, option_group, required_flag
from whisper_hailo.core.partial_options import (
    PartialOptions,
    default_of,
    from_keywords,
    inner_type,
    refuse_unknown,
)


@dataclass(frozen=True)
class Words:
    prepended: str = flag("(", "Before.", name="--prepend")
    depth: int = 1


def parsed(text: str) -> tuple[int, ...]:
    if text == "bad":
        raise ValueError("numbers")
    return tuple(int(part) for part in text.split(","))


def by_name(name: str) -> Words:
    return Words(prepended=name)


@dataclass(frozen=True)
class Options:
    language: str = flag("auto", "Which.", also=("--lang", "-l"))
    beam_size: int | None = flag(None, "How many.")
    share: float = flag(0.5, "How much.")
    suppress: tuple[int, ...] = flag(
        (), "What.", name="--suppress-tokens", parse=parsed
    )
    heads: tuple[float, ...] = (0.25,)
    place: Path | None = flag(None, "Where.")
    words: Words | None = flag(None, "Times.", name="--word-timestamps")
    preset: Words = flag(Words(), "Cures.", choices=("a", "b"), parse=by_name)
    mode: str = flag("a", "How.", choices=("a", "b"), parse=str.upper)
    more: Words = option_group(lambda: Words(depth=2))
    only: Words = option_group(Words, "depth")


@dataclass(frozen=True)
class Needs:
    name: str = required_flag("Which.")
    count: int = 2


BY_NAME = {one.name: one for one in fields(Options)}


def taken(**values: Any) -> Options:
    options: Options = from_keywords(Options, values).build()
    assert values == {}
    return options


def test_what_is_not_given_is_as_defaults_or_base_have_it() -> None:
    assert PartialOptions(Options).build() == Options()
    assert PartialOptions(Options, {"share": 0.25}).build() == Options(share=0.25)
    base = Options(language="de", share=0.75)
    assert PartialOptions(Options, {"share": 0.25}).apply_to(base) == Options(
        language="de", share=0.25
    )


def test_what_has_no_default_is_missing_where_nothing_gives_it() -> None:
    with pytest.raises(OptionError, match="--name"):
        PartialOptions(Needs).build()
    assert PartialOptions(Needs, {"name": "a"}).build() == Needs("a")
    assert PartialOptions(Needs, {"count": 3}).apply_to(Needs("b")) == Needs("b", 3)


def test_options_within_others_are_changed_where_they_are() -> None:
    deeper = {"more": PartialOptions(Words, {"prepended": "["})}
    assert PartialOptions(Options, {}, deeper).build() == Options(more=Words("[", 2))
    base = Options(more=Words("<", 9))
    assert PartialOptions(Options, {}, deeper).apply_to(base) == Options(
        more=Words("[", 9)
    )
    assert (
        PartialOptions(Options, {}, {"more": PartialOptions(Words)}).apply_to(base)
        == base
    )
    given = PartialOptions(Options, {"more": Words("{", 5)}, deeper)
    # Given itself, and a field of it.
    assert given.apply_to(base) == Options(more=Words("[", 5))


def test_switch_stands_for_defaults_and_its_options_need_it() -> None:
    words = {"words": PartialOptions(Words, {"prepended": "["})}
    assert PartialOptions(Options, {"words": True}, words).build() == Options(
        words=Words("[")
    )
    assert PartialOptions(
        Options, {"words": True}, {"words": PartialOptions(Words)}
    ).build() == Options(words=Words())
    assert (
        PartialOptions(Options, {}, {"words": PartialOptions(Words)}).build()
        == Options()
    )
    for typed in ({}, {"words": None}, {"words": False}):
        with pytest.raises(OptionError, match=r"--prepend .*--word-timestamps"):
            PartialOptions(Options, typed, words).build()
    on = Options(words=Words("<", 4))
    assert PartialOptions(Options, {}, words).apply_to(on) == Options(
        words=Words("[", 4)
    )


def test_defaults_and_inner_types() -> None:
    assert default_of(BY_NAME["language"]) == "auto"
    assert default_of(BY_NAME["more"]) == Words(depth=2)
    assert default_of(fields(Needs)[0]) is None
    assert inner_type(int | None) is int
    assert inner_type(None | int) is int
    assert inner_type(tuple[int, ...]) == tuple[int, ...]


def test_field_has_the_names_that_are_typed() -> None:
    assert keywords_of(BY_NAME["language"]) == ("language", "lang")
    assert keywords_of(BY_NAME["suppress"]) == ("suppress", "suppress_tokens")
    assert keywords_of(BY_NAME["heads"]) == ("heads",)


def test_values_by_any_of_their_names_are_taken() -> None:
    assert taken(
        lang="de", beam_size=3, share=1, suppress_tokens=[1, 2], place="a/b"
    ) == Options("de", 3, 1.0, (1, 2), place=Path("a/b"))
    assert taken(suppress="3,4", heads=0.5) == Options(suppress=(3, 4), heads=(0.5,))
    assert taken(suppress=(5,), heads=[1, 2], place=Path("c")) == Options(
        suppress=(5,), heads=(1.0, 2.0), place=Path("c")
    )
    assert taken(suppress=6, mode="b") == Options(suppress=(6,), mode="B")
    assert taken(beam_size=None, place=None) == Options()
    assert taken(beam_size=np.int64(4), share=np.float32(0.25)) == Options(
        beam_size=4, share=0.25
    )


def test_options_within_others_are_taken_themselves_or_by_a_word() -> None:
    assert taken(words=True).words == Words()
    assert taken(words=False).words is None
    assert taken(words=Words("<")).words == Words("<")
    assert taken(preset="b").preset == Words("b")
    assert taken(word_timestamps=True, prepend="[").words == Words("[")


def test_of_a_group_only_what_it_names_is_taken() -> None:
    values: dict[str, Any] = {"depth": 7, "prepended": "["}
    given = from_keywords(Words, values, ("depth",))
    assert (given.values, values) == ({"depth": 7}, {"prepended": "["})
    assert from_keywords(Options, {"other": 1}).values == {}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"share": "much"}, r"^share is 'much'"),
        ({"lang": 3}, r"^lang is 3"),
        ({"language": None}, r"^language is null"),
        ({"beam_size": 1.5}, r"^beam_size is 1\.5"),
        ({"suppress": "bad"}, r"^suppress is 'bad'"),
        ({"heads": "x"}, r"^heads\[0\] is 'x'"),
        ({"words": 3}, r"^words is 3"),
        ({"heads": np.ones(2)}, r"^heads\[0\] is array"),
        ({"words": "x"}, r"^words is 'x'"),
        ({"more": "x"}, r"^more is 'x'"),
        ({"place": 3}, r"^place is 3"),
        ({"mode": "c"}, r"^--mode is 'c'"),
        ({"preset": True}, r"^preset is True"),
        ({"preset": "c"}, r"^--preset is 'c'"),
    ],
)
def test_value_of_another_type_is_refused_by_name_it_came_by(
    values: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        from_keywords(Options, values)


def test_what_nothing_took_is_refused_with_what_was_meant() -> None:
    refuse_unknown({}, {}, Options)
    for name, said in (
        ("beamsize", r"^there is no option beamsize; did you mean beam_size\?$"),
        ("prepended_", r"did you mean prepended\?$"),  # of options within others
        ("wholly_else", r"^there is no option wholly_else; see help\(Transcriber\)$"),
        (
            "vad_filter",
            r"^vad_filter is an option of another program; give speech_only$",
        ),
    ):
        with pytest.raises(OptionError, match=said):
            refuse_unknown(
                {name: 1}, {"vad_filter": "give speech_only"}, Options, Needs
            )


def test_field_without_a_flag_has_its_own_name_alone() -> None:
    @dataclass
    class Plain:
        a_b: int = field(default=1)

    assert keywords_of(fields(Plain)[0]) == ("a_b",)
