"""Options given on a command line or as keywords, in place of the defaults."""

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


BY_NAME = {option.name: option for option in fields(Options)}


def options_from(**values: Any) -> Options:
    options: Options = from_keywords(Options, values).build()
    assert values == {}
    return options


def test_partial_options_missing_values_come_from_base() -> None:
    assert PartialOptions(Options).build() == Options()
    assert PartialOptions(Options, {"share": 0.25}).build() == Options(share=0.25)
    base = Options(language="de", share=0.75)
    assert PartialOptions(Options, {"share": 0.25}).apply_to(base) == Options(
        language="de", share=0.25
    )


def test_partial_options_missing_required_value_is_refused() -> None:
    with pytest.raises(OptionError, match="--name"):
        PartialOptions(Needs).build()
    assert PartialOptions(Needs, {"name": "a"}).build() == Needs("a")
    assert PartialOptions(Needs, {"count": 3}).apply_to(Needs("b")) == Needs("b", 3)


def test_partial_options_nested_values_change_in_place() -> None:
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


def test_partial_options_nested_values_need_their_switch() -> None:
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


def test_default_of_and_inner_type_read_annotations() -> None:
    assert default_of(BY_NAME["language"]) == "auto"
    assert default_of(BY_NAME["more"]) == Words(depth=2)
    assert default_of(fields(Needs)[0]) is None
    assert inner_type(int | None) is int
    assert inner_type(None | int) is int
    assert inner_type(tuple[int, ...]) == tuple[int, ...]


def test_keywords_of_include_names_of_the_flag() -> None:
    assert keywords_of(BY_NAME["language"]) == ("language", "lang")
    assert keywords_of(BY_NAME["suppress"]) == ("suppress", "suppress_tokens")
    assert keywords_of(BY_NAME["heads"]) == ("heads",)


def test_from_keywords_accepts_all_names_and_types() -> None:
    assert options_from(
        lang="de", beam_size=3, share=1, suppress_tokens=[1, 2], place="a/b"
    ) == Options("de", 3, 1.0, (1, 2), place=Path("a/b"))
    assert options_from(suppress="3,4", heads=0.5) == Options(
        suppress=(3, 4), heads=(0.5,)
    )
    assert options_from(suppress=(5,), heads=[1, 2], place=Path("c")) == Options(
        suppress=(5,), heads=(1.0, 2.0), place=Path("c")
    )
    assert options_from(suppress=6, mode="b") == Options(suppress=(6,), mode="B")
    assert options_from(beam_size=None, place=None) == Options()
    assert options_from(beam_size=np.int64(4), share=np.float32(0.25)) == Options(
        beam_size=4, share=0.25
    )


def test_from_keywords_nested_accepts_object_or_switch() -> None:
    assert options_from(words=True).words == Words()
    assert options_from(words=False).words is None
    assert options_from(words=Words("<")).words == Words("<")
    assert options_from(preset="b").preset == Words("b")
    assert options_from(word_timestamps=True, prepend="[").words == Words("[")


def test_from_keywords_group_takes_only_named_fields() -> None:
    values: dict[str, Any] = {"depth": 7, "prepended": "["}
    given = from_keywords(Words, values, ("depth",))
    assert (given.values, values) == ({"depth": 7}, {"prepended": "["})
    assert from_keywords(Options, {"other": 1}).values == {}


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        ({"share": "much"}, r"^share\b.*'much'"),
        ({"lang": 3}, r"^lang \w+ 3\b"),
        ({"language": None}, r"^language\b.*null"),
        ({"beam_size": 1.5}, r"^beam_size\b.*1\.5"),
        ({"suppress": "bad"}, r"^suppress\b.*'bad'"),
        ({"heads": "x"}, r"^heads\[0\].*'x'"),
        ({"words": 3}, r"^words \w+ 3\b"),
        ({"heads": np.ones(2)}, r"^heads\[0\].*array"),
        ({"words": "x"}, r"^words\b.*'x'"),
        ({"more": "x"}, r"^more\b.*'x'"),
        ({"place": 3}, r"^place \w+ 3\b"),
        ({"mode": "c"}, r"^--mode\b.*'c'"),
        ({"preset": True}, r"^preset\b.*True"),
        ({"preset": "c"}, r"^--preset\b.*'c'"),
    ],
)
def test_from_keywords_wrong_type_names_keyword(
    values: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(OptionError, match=pattern):
        from_keywords(Options, values)


def test_refuse_unknown_keyword_suggests_similar_name() -> None:
    refuse_unknown({}, {}, Options)
    for name, pattern in (
        ("beamsize", r"\bbeamsize\b.*\bbeam_size\b"),
        ("prepended_", r"\bprepended_.*\bprepended\b"),  # a field of a nested class
        ("wholly_else", r"\bwholly_else\b.*help\(Transcriber\)$"),
        (
            "vad_filter",
            r"^vad_filter is an option of another program; give speech_only$",
        ),
    ):
        with pytest.raises(OptionError, match=pattern):
            refuse_unknown(
                {name: 1}, {"vad_filter": "give speech_only"}, Options, Needs
            )


def test_keywords_of_plain_field_is_its_name() -> None:
    @dataclass
    class Plain:
        a_b: int = field(default=1)

    assert keywords_of(fields(Plain)[0]) == ("a_b",)
