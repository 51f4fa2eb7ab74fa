"""Click options made of the fields of dataclasses."""

from __future__ import annotations

from dataclasses import dataclass

import click
import pytest

from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.cli.options import options_of
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag
from whisper_hailo.decoding.options import (
    DecodingOptions,
)


def test_options_of_omit_python_only_fields() -> None:
    names = {option.name for option in options_of(EngineOptions)}
    assert "share" in names
    assert not {"priority", "open_timeout_s"} & names


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("", ["transcribe", "translate"]), ("trans", ["transcribe", "translate"]),
     ("transl", ["translate"]), ("x", [])],
)  # fmt: skip
def test_shell_complete_offers_choices(typed: str, offered: list[str]) -> None:
    options = {option.name: option for option in options_of(DecodingOptions)}
    context = click.Context(click.Command("x"))
    items = options["task"].shell_complete(context, typed)
    assert [item.value for item in items] == offered
    assert options["language"].shell_complete(context, typed) == []


@dataclass(frozen=True)
class Parameters:
    size: int = flag(3, "Size.", short="-s")
    share: float | None = flag(None, "Share.", metavar="SHARE", shown="all")
    is_fast: bool = flag(True, "Speed.", name="--fast")
    kinds: tuple[str, ...] = flag((), "Kinds.", choices=("a", "b"))


OPTIONS = {option.name: option for option in options_of(Parameters)}


def test_options_of_carry_names_metavars_and_defaults() -> None:
    assert OPTIONS["size"].opts == ["--size", "-s"]
    assert (OPTIONS["size"].metavar, OPTIONS["share"].metavar) == ("N", "SHARE")
    assert OPTIONS["kinds"].multiple
    assert OPTIONS["fast"].is_flag
    assert OPTIONS["fast"].can_be_switched_off
    assert str(OPTIONS["size"].help).endswith("[default: 3]")
    assert str(OPTIONS["share"].help).endswith("[default: all]")


@pytest.mark.parametrize(
    ("name", "word", "is_accepted"),
    [
        ("size", "4", True),
        ("size", "4.5", False),
        ("share", "4.5", True),
        ("share", "much", False),
        ("kinds", "a", True),
        ("kinds", "c", False),
    ],
)
def test_option_accepts_words_of_its_type(
    name: str, word: str, is_accepted: bool
) -> None:
    assert OPTIONS[name].accepts(word) is is_accepted


@pytest.mark.parametrize("value", [2.5, True, "2.5", "many"])
def test_value_convert_of_other_type_names_option_and_value(value: object) -> None:
    with pytest.raises(OptionError, match=f"--size .*{value}"):
        OPTIONS["size"].type.convert(value, OPTIONS["size"], None)
