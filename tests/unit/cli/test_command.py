"""Dataclasses of options as Click options, and values of a TOML file and the environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from tests.fakes.commands import missing_data
from whisper_hailo.cli.app import PROGRAM_GROUP, load_command, run
from whisper_hailo.cli.command import command_of
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, option_group, require_choices, require_valid
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.serve.options import Address


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


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file with options of each type."""
    file = tmp_path / "serve.toml"
    file.write_text(
        'http = "127.0.0.1:9000"\nmax-upload = 25\napi-key = ["one", "two"]\nmodel = "micro"\n'
        "temperature = 1\nno-speech-threshold = 0.5\n"
    )
    return file


def settled(*words: str | Path, command: str = "serve") -> dict[str, Any]:
    """Options of a command after typed words, environment and file."""
    found = load_command(command)
    assert found is not None
    with PROGRAM_GROUP.make_context("whisper-hailo", [command]) as program:
        return found.make_context(
            command, [str(word) for word in words], program
        ).params


def test_config_file_gives_untyped_options(config: Path) -> None:
    options = settled("--config", config)
    assert options["http"] == Address("127.0.0.1", 9000)
    assert options["max_upload"] == 25
    assert options["api_key"] == ("one", "two")
    assert options["model"] == ("micro",)
    assert options["temperature"] == 1.0
    assert options["no_speech_threshold"] == 0.5
    assert options["queue"] is None


def test_settings_typed_beats_environment_beats_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_SERVE_CONFIG", str(config))
    monkeypatch.setenv("WHISPER_HAILO_SERVE_MAX_UPLOAD", "7")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_API_KEY", "three,four")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_LOG_TEXT", "true")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_ALIAS", "")
    options = settled()
    assert options["max_upload"] == 7
    assert options["api_key"] == ("three", "four")
    assert options["log_text"] is True
    assert options["http"] == Address("127.0.0.1", 9000)
    assert not options["alias"]
    assert settled("--max-upload", "3")["max_upload"] == 3
    other = config.with_name("other.toml")
    other.write_text("queue = 3\n")
    assert settled("--config", other)["queue"] == 3, (
        "the file that is typed, not the other"
    )
    assert settled("--config", other)["http"] is None


@pytest.mark.parametrize("command", ["transcribe", "caption", "batch"])
def test_config_file_works_for_transcribing_commands(
    command: str, tmp_path: Path
) -> None:
    file = tmp_path / "file.toml"
    file.write_text(
        'hotwords = "Hailo"\nsuppress_blank = false\nmargin-s = 2\nsuppress-tokens = [5, 6]\n'
    )
    options = settled("--config", file, "a.wav", command=command)
    assert (options["hotwords"], options["suppress_blank"]) == ("Hailo", False)
    assert options["margin_s"] == 2.0
    assert options["suppress_tokens"] == (5, 6)


def test_config_file_single_text_becomes_list(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text('alias = "house"\n')
    assert settled("--config", file)["alias"] == ("house",)


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        ("maxupload = 3", "max-upload"),
        ('max-upload = "many"', "--max-upload .*'many'"),
        ("max-upload = 2.5", r"--max-upload .*2\.5"),
        ("model = true", "--model .*True"),
        ('http = "here"', "--http .*'here'"),
        ("http = ", "cannot be read"),
        ('task = "translate"', "task .*serve"),
    ],
)
def test_config_file_with_wrong_entry_is_refused(
    tmp_path: Path, content: str, pattern: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(content)
    with pytest.raises(OptionError, match=pattern):
        settled("--config", file)
    with pytest.raises(OptionError, match=r"nowhere\.toml"):
        settled("--config", tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    "name", ["WHISPER_HAILO_SERVE_MAX_UPLAOD", "whisper_hailo_serve_max_upload"]
)
def test_environment_misspelt_variable_warns(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "7")
    assert settled()["max_upload"] is None
    assert "WHISPER_HAILO_SERVE_MAX_UPLOAD?" in caplog.text


@pytest.mark.parametrize("key", ["config", "help-all"])
def test_config_file_with_command_line_only_key_is_refused(
    key: str, tmp_path: Path
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f"{key} = 'x'\n")
    with pytest.raises(OptionError, match=f"{key} .*serve"):
        settled("--config", file)


def test_environment_version_variable_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_VERSION", "1.0")
    assert settled()["max_upload"] is None
