"""Dataclasses of options become Click options and come back as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from tests.fakes.messages import missing_data
from whisper_hailo.cli.app import run
from whisper_hailo.cli.command import command_of
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, option_group, require_choices, require_valid
from whisper_hailo.core.partial_options import PartialOptions


@dataclass(frozen=True)
class Inner:
    depth: int = flag(3, "How deep.", name="--deep", short="-d")
    hidden: int = 7


@dataclass(frozen=True)
class Start:
    at: int = flag(1, "Where.")
    end: int = flag(2, "Until.")


@dataclass(frozen=True)
class Extra:
    marks: str = flag("!", "Marks.")


@dataclass(frozen=True)
class Outer:
    inner: Inner = option_group(Inner)
    colour: str = flag("red", "Paint", choices=("red", "blue"))
    extra: Extra | None = flag(None, "More.")
    start: Start = flag(Start(), "Begin", parse=lambda text: Start(int(text), 9))
    names: tuple[str, ...] = flag((), "Some.")

    def __post_init__(self) -> None:
        require_choices(self)


@dataclass(frozen=True)
class Narrow:
    inner: Inner = option_group(Inner, "hidden")
    wide: int = flag(1, "Width.")
    high: int = flag(2, "Height.")


def command(
    files: Annotated[list[str], Argument()],
    outer: Outer,
    narrow: Annotated[PartialOptions[Narrow], FieldSubset(("wide",))],
) -> Any:
    """Says what it does."""
    return files, outer, narrow


MADE = command_of("do", command)


def call(words: str) -> Any:
    """Return the arguments that the function gets for words behind one file."""
    with MADE.make_context("do", ["a", *words.split()]) as context:
        return MADE.invoke(context)


def test_command_of_fields_with_flags_become_options() -> None:
    assert [param.name for param in MADE.params] == [
        "files", "deep", "colour", "extra", "marks", "start", "at", "end",
        "names", "wide", "verbose", "quiet",
    ]  # fmt: skip
    assert MADE.help == "Says what it does."


def test_field_subset_accepts_fields_of_groups() -> None:
    def paint(outer: Annotated[Outer, FieldSubset(("colour", "extra.marks"))]) -> Outer:
        return outer

    names = [param.name for param in command_of("paint", paint).params]
    assert names == ["colour", "extra", "marks", "verbose", "quiet"]


def test_command_of_without_options_gives_defaults() -> None:
    assert call("")[1] == Outer()


def test_command_of_typed_values_fill_their_fields() -> None:
    _, outer, _ = call("--deep 9 --colour blue --names a --names b")
    assert outer == Outer(inner=Inner(9), colour="blue", names=("a", "b"))


def test_command_of_parsed_group_accepts_single_values() -> None:
    assert call("--start 5")[1].start == Start(5, 9)
    assert call("--start 5 --end 7")[1].start == Start(5, 7)
    assert call("--end 7")[1].start == Start(1, 7)


def test_command_of_switch_gives_defaults_of_group() -> None:
    assert call("--extra")[1].extra == Extra()
    assert call("--extra --marks ?")[1].extra == Extra("?")
    with pytest.raises(OptionError, match=r"--marks .*--extra"):
        call("--marks ?")


def test_command_of_partial_options_apply_to_any_base() -> None:
    narrow = call("--wide 5")[2]
    assert narrow.apply_to(Narrow(wide=8, high=9)) == Narrow(wide=5, high=9)
    assert call("")[2].apply_to(Narrow(wide=8)) == Narrow(wide=8)


def test_command_of_wrong_value_names_option() -> None:
    with pytest.raises(OptionError, match=r"--colour .*'green'.*red, blue"):
        call("--colour green")
    with pytest.raises(OptionError, match=r"--start .*'x'"):
        call("--start x")


def test_require_valid_names_option_as_typed() -> None:
    with pytest.raises(OptionError, match=r"--deep .*\b3\b"):
        require_valid(Inner(), "depth", False, "more")
    with pytest.raises(OptionError, match=r"hidden .*\b7\b"):
        require_valid(Inner(), "hidden", False, "less")


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("--part encoder --calibration c", "--arch --help"),
        ("--arch hailo8 --calibration c", "--part --help"),
        (
            "--arch hailo8 --part encoder",
            "--calibration",
        ),
        (
            "--arch hailo9 --part encoder --calibration c",
            "--arch hailo9 hailo8",
        ),
        ("--arch hailo8 --built out", "--part --help"),
        (
            "--arch hailo8 --part encoder --built out --python py",
            "--built",
        ),
    ],
)
def test_compile_missing_option_is_refused(
    words: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compile", "no-model", *words.split()]) == 2
    assert not missing_data(capsys.readouterr().err, data)


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (["nowhere.wav"], "nowhere.wav"),
        (["-", "--web"], "--web starlette"),
        (["--mic", "0"], "--mic sounddevice"),
    ],
)
def test_caption_missing_input_is_refused_before_loading(
    words: list[str],
    data: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("whisper_hailo.core.process.find_spec", lambda _: None)
    assert run(["caption", *words, "--model", "no-such-model"]) in {2, 3}
    assert not missing_data(capsys.readouterr().err, data)
