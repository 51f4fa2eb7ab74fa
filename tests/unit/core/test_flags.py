"""Fields of options as they are typed, and what is said of values that do not fit."""

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


BY_NAME = {one.name: one for one in fields(Options)}


def test_all_that_is_said_of_a_field_stays_with_it() -> None:
    how = flag_of(BY_NAME["beam_size"])
    assert how is not None
    assert (how.help, how.topic, how.short, how.also, how.shown) == (
        "How many.", "Search", "-b", ("--beams",), "five",
    )  # fmt: skip
    assert (how.name, how.metavar, how.choices, how.parse) == ("", "", (), None)
    how = flag_of(BY_NAME["model"])
    assert how is not None
    assert (how.help, how.topic, how.metavar, how.choices) == (
        "Which.", "", "NAME", ("tiny", "base"),
    )  # fmt: skip
    assert flag_of(BY_NAME["plain"]) is flag_of(BY_NAME["inner"]) is None


def test_what_is_said_of_a_field_is_where_it_is_looked_for() -> None:
    made: Any = flag(3, "How deep.", "Search", name="--deep", parse=int)
    how = flag_of(made)
    assert how is not None
    assert (made.default, how.name, how.help, how.topic, how.parse) == (
        3, "--deep", "How deep.", "Search", int,
    )  # fmt: skip
    inner: Any = option_group(Inner, "depth")
    assert (inner.default_factory, group_fields(inner)) == (Inner, ("depth",))
    assert not is_required(field(init=False))  # nobody could give it


def test_field_is_typed_with_hyphens_or_as_it_says() -> None:
    assert {name: option_name(one) for name, one in BY_NAME.items()} == {
        "model": "--model", "beam_size": "--beam-size", "offset_s": "--offset", "kind": "--kind",
        "inner": "inner", "rest": "rest", "plain": "plain",
    }  # fmt: skip


def test_only_a_field_without_a_default_is_needed() -> None:
    assert [name for name, one in BY_NAME.items() if is_required(one)] == ["model"]
    assert Options("tiny").inner == Inner(3)
    assert (group_fields(BY_NAME["inner"]), group_fields(BY_NAME["rest"])) == (
        ("depth",),
        (),
    )
    assert group_fields(BY_NAME["plain"]) == ()


@pytest.mark.parametrize(
    ("change", "name", "said"),
    [
        ({"beam_size": 0}, "beam_size", r"^--beam-size is 0"),
        ({"offset_s": 0.5}, "offset_s", r"^--offset is 0\.5"),
        ({"offset_s": 0.1 + 0.2}, "offset_s", r"^--offset is 0\.3"),
        ({"kind": "x"}, "kind", r"^--kind is 'x'"),
        ({"kind": " "}, "kind", r"^--kind is blank"),
        ({"kind": ""}, "kind", r"^--kind is blank"),
        ({"kind": None}, "kind", r"^--kind is None"),
        ({"plain": 1}, "plain", r"^plain is 1"),
    ],
)
def test_value_that_does_not_fit_is_named_as_it_is_typed(
    change: dict[str, Any], name: str, said: str
) -> None:
    options = Options("tiny", **change)
    require_valid(options, name, True, "1 or more")
    with pytest.raises(OptionError, match=said):
        require_valid(options, name, False, "1 or more")


def test_what_was_given_in_vain_is_refused_and_a_default_is_not() -> None:
    refuse_unused(Options("tiny"), False, "--search beam", "beam_size")
    refuse_unused(Options("tiny", beam_size=4), True, "--search beam", "beam_size")
    with pytest.raises(OptionError, match=r"--beam-size .*--search beam"):
        refuse_unused(Options("tiny", beam_size=4), False, "--search beam", "beam_size")


def test_name_is_one_of_the_choices() -> None:
    require_choices(Options("base", kind="b"))
    require_choices(Options("tiny"))  # of none there is nothing to choose
    for options, said in (
        (Options("huge"), "^--model is 'huge'"),
        (Options("tiny", kind="c"), "^--kind is 'c'"),
    ):
        with pytest.raises(OptionError, match=said):
            require_choices(options)
    require_choice(BY_NAME["kind"], 3)  # another type is told by who looks at types
    require_choice(BY_NAME["plain"], "anything")
    require_choice(BY_NAME["offset_s"], "anything")


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), ("-2", -2.0), ("none", None), (" None ", None)]
)
def test_number_may_be_none(text: str, number: float | None) -> None:
    assert number_or_none(text) == number


def test_neither_is_told() -> None:
    with pytest.raises(ValueError, match="none"):
        number_or_none("off")
