"""Dataclasses of options become Click options and come back as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from tests.fakes.settings_file import given
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


def test_fields_with_flags_become_options() -> None:
    assert [param.name for param in MADE.params] == [
        "files", "deep", "colour", "extra", "marks", "start", "at", "end",
        "names", "wide", "verbose", "quiet",
    ]  # fmt: skip
    assert MADE.help == "Says what it does."


def test_subset_may_name_fields_of_groups() -> None:
    def paint(outer: Annotated[Outer, FieldSubset(("colour", "extra.marks"))]) -> Outer:
        return outer

    names = [param.name for param in command_of("paint", paint).params]
    assert names == ["colour", "extra", "marks", "verbose", "quiet"]


def test_what_was_not_typed_is_the_dataclasses_own() -> None:
    assert call("")[1] == Outer()


def test_what_was_typed_comes_back_in_its_place() -> None:
    _, outer, _ = call("--deep 9 --colour blue --names a --names b")
    assert outer == Outer(inner=Inner(9), colour="blue", names=("a", "b"))


def test_name_says_what_single_values_start_from() -> None:
    assert call("--start 5")[1].start == Start(5, 9)
    assert call("--start 5 --end 7")[1].start == Start(5, 7)
    assert call("--end 7")[1].start == Start(1, 7)


def test_switch_stands_for_the_defaults_of_its_options() -> None:
    assert call("--extra")[1].extra == Extra()
    assert call("--extra --marks ?")[1].extra == Extra("?")
    with pytest.raises(OptionError, match="--marks needs --extra; give both"):
        call("--marks ?")


def test_what_is_given_goes_on_whatever_the_command_starts_from() -> None:
    narrow = call("--wide 5")[2]
    assert narrow.apply_to(Narrow(wide=8, high=9)) == Narrow(wide=5, high=9)
    assert call("")[2].apply_to(Narrow(wide=8)) == Narrow(wide=8)


def test_what_stands_for_no_value_is_told_with_its_name() -> None:
    with pytest.raises(
        OptionError, match="--colour is 'green', expected one of: red, blue"
    ):
        call("--colour green")
    with pytest.raises(OptionError, match="--start is 'x', expected"):
        call("--start x")


def test_message_names_a_field_as_it_is_typed() -> None:
    with pytest.raises(OptionError, match=r"--deep is 3, expected more"):
        require_valid(Inner(), "depth", False, "more")
    with pytest.raises(OptionError, match=r"hidden is 7, expected less"):
        require_valid(Inner(), "hidden", False, "less")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--part encoder --calibration c", "--arch is missing; see --help"),
        ("--arch hailo8 --calibration c", "--part is missing; see --help"),
        (
            "--arch hailo8 --part encoder",
            "--calibration is missing: the compiler quantises with",
        ),
        (
            "--arch hailo9 --part encoder --calibration c",
            "--arch is 'hailo9', expected one of",
        ),
        ("--arch hailo8 --built out", "--part is missing; see --help"),
        (
            "--arch hailo8 --part encoder --built out --python py",
            "leave out the options it was built with",
        ),
    ],
)
def test_what_has_no_default_has_to_be_typed(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compile", "no-model", *words.split()]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--beam-size 0", "--beam-size is 0, expected 1 to 64 hypotheses"),
        ("--temperature 3", "--temperature is 3, expected numbers from 0 to 2"),
        ("--fallback 2", "--fallback is 2, expected 0 (off) or a step of 0.01 to 1"),
        ("--threads 300", "--threads is 300, expected 0 to 256"),
        ("--hotwords=", "--hotwords is blank, expected some text"),
        ("--task listen", "--task is 'listen', expected one of: transcribe, translate"),
        (
            "--preset mild",
            "--preset is 'mild', expected one of: conservative, balanced",
        ),
        ("--channels three", "--channels is 'three', expected one of: mix, split"),
        ("--highlight-words", "--highlight-words needs --word-timestamps; give both"),
        (
            "| max-initial-timestamp = 'soon'",
            "max-initial-timestamp is 'soon', expected a number",
        ),
        (
            "-l de --detect-each-window",
            "--detect-each-window needs --language auto; give both",
        ),
        ("--batch-size 0", "--batch-size is 0, expected 1 to 256"),
        ("--window 40", "--window is 40, expected 0.02 s to 30 s"),
        (
            "--language klingon",
            "--language is 'klingon', expected the name or code of a language",
        ),
        ("--language germn", "such as German (de)"),
        (
            "--language de --model tiny.en",
            "tiny.en supports English only; give --model tiny",
        ),
        (
            "--task translate --model tiny.en",
            "tiny.en supports English only; give --model tiny",
        ),
        ("-q -v", "--verbose and --quiet contradict each other"),
    ],
)
def test_what_is_wrong_is_told_before_a_model_is_looked_for(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert (
        run(
            ["transcribe", "a.wav", "--model", "no-such-model", *given(words, tmp_path)]
        )
        == 2
    )
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--task listen", "--task is 'listen', expected one of: transcribe, translate"),
        ("--mic browser", "--mic browser needs --web"),
        (
            "--language klingon",
            "--language is 'klingon', expected the name or code of a language",
        ),
        ("| settle = 99", "settle is 99, expected 0 to 30 s"),
        ("--web-port 70000", "--web-port is 70000, expected 0 to 65535"),
    ],
)
def test_so_it_is_of_captions(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert (
        run(["caption", "a.wav", "--model", "no-such-model", *given(words, tmp_path)])
        == 2
    )
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.wav"], "nowhere.wav does not exist"),
        (["-", "--web"], "--web needs starlette, which is not installed"),
        (["--mic", "0"], "--mic needs sounddevice, which is not installed"),
    ],
)
def test_what_captions_lack_is_told_before_a_model_is_looked_for(
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("whisper_hailo.core.process.find_spec", lambda _: None)
    assert run(["caption", *words, "--model", "no-such-model"]) in {2, 3}
    assert said in capsys.readouterr().err
