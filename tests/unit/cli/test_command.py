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
    with pytest.raises(OptionError, match="--marks needs --extra; give both"):
        call("--marks ?")


def test_command_of_partial_options_apply_to_any_base() -> None:
    narrow = call("--wide 5")[2]
    assert narrow.apply_to(Narrow(wide=8, high=9)) == Narrow(wide=5, high=9)
    assert call("")[2].apply_to(Narrow(wide=8)) == Narrow(wide=8)


def test_command_of_wrong_value_names_option() -> None:
    with pytest.raises(
        OptionError, match="--colour is 'green', expected one of: red, blue"
    ):
        call("--colour green")
    with pytest.raises(OptionError, match="--start is 'x', expected"):
        call("--start x")


def test_require_valid_names_option_as_typed() -> None:
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
def test_compile_missing_option_is_refused(
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
def test_transcribe_wrong_option_is_refused_before_loading(
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
def test_caption_wrong_option_is_refused_before_loading(
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
def test_caption_missing_input_is_refused_before_loading(
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("whisper_hailo.core.process.find_spec", lambda _: None)
    assert run(["caption", *words, "--model", "no-such-model"]) in {2, 3}
    assert said in capsys.readouterr().err
