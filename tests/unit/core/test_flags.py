"""Options declared as fields: their names on the command line, and refusals of bad values."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import (
    flag,
    flag_of,
    group_fields,
    is_required,
    number_or_none,
    option_group,
    option_name,
    refuse_unused,
    require_choice,
    require_choices,
    require_valid,
    required_flag,
)


@dataclass(frozen=True)
class Inner:
    depth: int = flag(3, "How deep.")


@dataclass(frozen=True)
class Options:
    model: str = required_flag("Which.", metavar="NAME", choices=("tiny", "base"))
    beam_size: int = flag(
        5, "How many.", "Search", short="-b", also=("--beams",), shown="five"
    )
    offset_s: float = flag(0.0, "From where.", name="--offset", metavar="S")
    kind: str | None = flag(None, "Of what.", choices=("a", "b"))
    inner: Inner = option_group(Inner, "depth")
    rest: Inner = option_group(Inner)
    plain: int = 7


BY_NAME = {field_.name: field_ for field_ in fields(Options)}


def test_flag_of_returns_declared_properties() -> None:
    option = flag_of(BY_NAME["beam_size"])
    assert option is not None
    assert (option.help, option.topic, option.short, option.also, option.shown) == (
        "How many.", "Search", "-b", ("--beams",), "five",
    )  # fmt: skip
    assert (option.name, option.metavar, option.choices, option.parse) == (
        "",
        "",
        (),
        None,
    )
    option = flag_of(BY_NAME["model"])
    assert option is not None
    assert (option.help, option.topic, option.metavar, option.choices) == (
        "Which.", "", "NAME", ("tiny", "base"),
    )  # fmt: skip
    assert flag_of(BY_NAME["plain"]) is flag_of(BY_NAME["inner"]) is None


def test_flag_default_and_group_are_field_defaults() -> None:
    declared: Any = flag(3, "How deep.", "Search", name="--deep", parse=int)
    option = flag_of(declared)
    assert option is not None
    assert (declared.default, option.name, option.help, option.topic, option.parse) == (
        3, "--deep", "How deep.", "Search", int,
    )  # fmt: skip
    inner: Any = option_group(Inner, "depth")
    assert (inner.default_factory, group_fields(inner)) == (Inner, ("depth",))
    assert not is_required(field(init=False))  # no caller can set it


def test_option_name_is_hyphenated_unless_given() -> None:
    assert {name: option_name(option) for name, option in BY_NAME.items()} == {
        "model": "--model", "beam_size": "--beam-size", "offset_s": "--offset", "kind": "--kind",
        "inner": "inner", "rest": "rest", "plain": "plain",
    }  # fmt: skip


def test_is_required_field_without_default_is_true() -> None:
    assert [name for name, option in BY_NAME.items() if is_required(option)] == [
        "model"
    ]
    assert Options("tiny").inner == Inner(3)
    assert (group_fields(BY_NAME["inner"]), group_fields(BY_NAME["rest"])) == (
        ("depth",),
        (),
    )
    assert group_fields(BY_NAME["plain"]) == ()


@pytest.mark.parametrize(
    ("change", "name", "pattern"),
    [
        ({"beam_size": 0}, "beam_size", r"^--beam-size \w+ 0\b"),
        ({"offset_s": 0.5}, "offset_s", r"^--offset\b.*0\.5"),
        ({"offset_s": 0.1 + 0.2}, "offset_s", r"^--offset\b.*0\.3"),
        ({"kind": "x"}, "kind", r"^--kind\b.*'x'"),
        ({"kind": " "}, "kind", r"^--kind\b.*blank"),
        ({"kind": ""}, "kind", r"^--kind\b.*blank"),
        ({"kind": None}, "kind", r"^--kind\b.*None"),
        ({"plain": 1}, "plain", r"^plain \w+ 1\b"),
    ],
)
def test_require_valid_bad_value_names_option_and_value(
    change: dict[str, Any], name: str, pattern: str
) -> None:
    options = Options("tiny", **change)
    require_valid(options, name, True, "1 or more")
    with pytest.raises(OptionError, match=pattern):
        require_valid(options, name, False, "1 or more")


def test_refuse_unused_default_value_is_accepted() -> None:
    refuse_unused(Options("tiny"), False, "--search beam", "beam_size")
    refuse_unused(Options("tiny", beam_size=4), True, "--search beam", "beam_size")
    with pytest.raises(OptionError, match=r"--beam-size .*--search beam"):
        refuse_unused(Options("tiny", beam_size=4), False, "--search beam", "beam_size")


def test_require_choices_other_value_is_refused() -> None:
    require_choices(Options("base", kind="b"))
    require_choices(Options("tiny"))  # None is no choice
    for options, pattern in (
        (Options("huge"), r"^--model\b.*'huge'"),
        (Options("tiny", kind="c"), r"^--kind\b.*'c'"),
    ):
        with pytest.raises(OptionError, match=pattern):
            require_choices(options)
    require_choice(
        BY_NAME["kind"], 3
    )  # another type is refused where types are checked
    require_choice(BY_NAME["plain"], "anything")
    require_choice(BY_NAME["offset_s"], "anything")


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), ("-2", -2.0), ("none", None), (" None ", None)]
)
def test_number_or_none_parses_number_and_none(text: str, number: float | None) -> None:
    assert number_or_none(text) == number


def test_number_or_none_other_word_is_refused() -> None:
    with pytest.raises(ValueError, match="none"):
        number_or_none("off")
