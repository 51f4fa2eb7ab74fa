"""Help: everyday options on the first screen, every option once, no name cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tests.fakes.commands import full_help_of, help_of, rows_of
from whisper_hailo.backends.options import ChipOptions, EngineOptions
from whisper_hailo.cli.app import COMMAND_GROUPS, GROUPS, LABORATORY, run
from whisper_hailo.cli.caption_options import CaptionModel, ShowOptions, SourceOptions
from whisper_hailo.cli.commands.transcribe import BatchingOptions
from whisper_hailo.cli.everyday_options import EVERYDAY_OPTIONS
from whisper_hailo.cli.messages import Verbosity
from whisper_hailo.cli.transcribe_options import Fallback, ModelOptions, OutputOptions
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.flags import Flag, flag_of, option_name
from whisper_hailo.core.partial_options import inner_type
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
)
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.compare.padding_grid import PaddingGrid
from whisper_hailo_tools.options import (
    CalibrationOptions,
    CompileOptions,
    EmulateOptions,
    ValidateOptions,
)

DECODING = (
    DecodingOptions,
    AntiRepetition,
    SearchOptions,
    Thresholds,
    TokenLimits,
    PromptOptions,
)
RUN = (EngineOptions, ChipOptions, Verbosity)
TAKES: dict[str, tuple[type[Any], ...]] = {
    "transcribe": (
        *DECODING, *RUN, ModelOptions, LongOptions, BatchingOptions, Fallback, OutputOptions,
        Layout,
    ),
    "caption": (
        *RUN, CaptionModel, CaptionOptions, AntiRepetition, Thresholds, TokenLimits, PromptOptions,
        SourceOptions, ShowOptions,
    ),
    "convert": (ConvertOptions, HailoOptions, Verbosity),
    "calibrate": (CalibrationOptions, Verbosity),
    "emulate": (EmulateOptions, Verbosity),
    "compile": (CompileOptions, Verbosity),
    "validate": (ValidateOptions, Verbosity),
    "time": (*RUN, ModelOptions, AntiRepetition),
    "compare": (Verbosity, PaddingGrid),
}  # fmt: skip
"""Dataclasses of options, all of whose flags are options of these commands."""

WITHOUT_EFFECT = {
    "--prefix", "--condition-on-previous-text", "--carry-initial-prompt",
    "--compression-ratio-threshold", "--hotword-bonus",
}  # fmt: skip
"""Options of decoding that captions do not have."""

SCREEN_LINES = 24
SCREEN_COLUMNS = 80


def flags(kind: type[Any]) -> Iterator[tuple[Field[Any], Flag]]:
    for one in fields(kind):
        if (how := flag_of(one)) is not None:
            yield one, how


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(SCREEN_COLUMNS))


@pytest.mark.parametrize("command", ["transcribe", "caption", "serve", "batch"])
def test_help_has_about_forty_options(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short = rows_of(help_of(command, capsys))
    every = rows_of(full_help_of(command, capsys))
    assert len(short) <= (26 if command in EVERYDAY_OPTIONS else 58)
    assert len({*every} - {*short}) >= 20
    assert {"--help-all", "--config"} <= {*short}


@pytest.mark.parametrize("command", [*COMMAND_GROUPS])
def test_help_all_exists_where_options_are_rare(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    has_rare = "--config" in help_of(command, capsys)
    assert ("--help-all" in rows_of(help_of(command, capsys))) == has_rare


@pytest.mark.parametrize("command", TAKES)
@pytest.mark.usefixtures("narrow")
def test_help_has_each_flag_once_with_default(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = full_help_of(command, capsys)
    rows = rows_of(text)
    assert max(map(len, text.splitlines())) <= SCREEN_COLUMNS
    for kind in TAKES[command]:
        for one, how in flags(kind):
            if command == "caption" and option_name(one) in WITHOUT_EFFECT:
                assert option_name(one) not in rows
                continue
            said = rows[option_name(one)]
            plain = " ".join(said.split())
            assert not how.short or f"{how.short}, {option_name(one)}" in text
            assert all(choice in plain for choice in how.choices), plain
            if how.shown:
                assert f"[default: {how.shown}]" in plain
            elif (
                isinstance(one.default, int | float | str) and one.default is not False
            ):
                shown = "on" if one.default is True else str(one.default)
                assert f"[default: {' '.join(shown.split())}]" in plain
            else:
                assert "[default" not in plain


def test_help_table_covers_all_option_dataclasses() -> None:
    tried = {kind for kinds in TAKES.values() for kind in kinds}
    seen: set[type[Any]] = set()
    waiting: list[Any] = [*tried]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and is_dataclass(kind) and kind not in seen:
            seen.add(kind)
            hints = get_type_hints(kind).values()
            waiting += [
                part
                for hint in hints
                for part in (hint, *getattr(hint, "__args__", ()))
            ]
    assert {kind for kind in seen if any(flags(kind))} <= tried


@pytest.mark.usefixtures("narrow")
def test_help_lists_engine_and_chip_last(capsys: pytest.CaptureFixture[str]) -> None:
    text = full_help_of("transcribe", capsys)
    topics = re.findall(r"^(\w[^\n]*):$", text, flags=re.MULTILINE)
    assert topics[0] == "Options"
    assert topics[-4:-1] == ["Engine", "Hailo chip", "More"]


def test_help_lists_commands_by_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    parts = capsys.readouterr().out.split("\n\n")
    topics = {part.partition(":\n")[0]: part.partition(":\n")[2] for part in parts}
    assert [*topics][2:] == [*GROUPS, "Laboratory", "Options"]
    for name, topic in {
        **COMMAND_GROUPS,
        **dict.fromkeys(LABORATORY, "Laboratory"),
    }.items():
        assert re.search(rf"^  {name} +\w", topics[topic], flags=re.MULTILINE), name


def test_model_options_defaults_match_from_model() -> None:
    defaults = Transcriber.from_model.__kwdefaults__
    (model,) = Transcriber.from_model.__func__.__defaults__  # type: ignore[attr-defined]
    options = ModelOptions()
    assert options.model == model
    assert options.threads == defaults["threads"]
    assert options.revision == defaults["revision"]
    assert options.window == defaults["window_s"]
    assert options.margin_s == defaults["margin_s"]
    assert options.convert == ConvertOptions()
    assert options.engine == EngineOptions()


@pytest.mark.parametrize("word", ["-h", "--help"])
@pytest.mark.parametrize("command", ["transcribe", "check", "evaluate"])
def test_help_short_option_works_after_command(
    command: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, word]) == 0
    assert capsys.readouterr().out.startswith(
        f"Usage: whisper-hailo {command} [OPTIONS]"
    )


@pytest.mark.parametrize("command", TAKES)
@pytest.mark.usefixtures("narrow")
def test_help_shows_metavars_and_switches(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--task NAME`, `--threads N`, `--output DIR`; what can be switched off says so."""
    text = " ".join(full_help_of(command, capsys).split())
    for kind in TAKES[command]:
        hints = get_type_hints(kind)
        for one, how in flags(kind):
            name = option_name(one)
            if command == "caption" and name in WITHOUT_EFFECT:
                continue
            inner = inner_type(hints[one.name])
            is_switch = inner is bool or (is_dataclass(inner) and how.parse is None)
            if is_switch:
                off = one.default is True or bool(how.shown)
                assert (f"--[no-]{name[2:]} " if off else f" {name} ") in text
                continue
            usual = {int: "N", float: "X", str: "TEXT", Path: "PATH"}.get(inner, "X")
            value = how.metavar or ("NAME" if how.choices else usual)
            assert f"{name} {value} " in text, f"{name} {value}"


def test_help_usage_names_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for command, usage in (
        ("transcribe", "transcribe [OPTIONS] AUDIO..."),
        ("models", "models [OPTIONS] [ACTION] [NAMES]..."),
        ("convert", "convert [OPTIONS] CHECKPOINT OUT"),
        ("batch", "batch [OPTIONS] MANIFEST|FOLDER|FILE..."),
    ):
        first = " ".join(help_of(command, capsys).split("\n\n")[0].split())
        assert first == f"Usage: whisper-hailo {usage}"


def test_help_describes_unobvious_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = help_of("convert", capsys).split("\n\n")
    (arguments,) = (part for part in parts if part.startswith("Positional arguments:"))
    assert re.search(r"^  CHECKPOINT +Checkpoint directory, ", arguments, re.MULTILINE)
    assert re.search(r"^  OUT +Model directory to write", arguments, re.MULTILINE)
    assert "arguments:\n  MANIFEST|FOLDER|FILE...  Recordings of the job.\n" in help_of(
        "batch", capsys
    )
    assert "arguments:" not in help_of("transcribe", capsys)


def test_help_marks_required_options(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(help_of("compile", capsys))
    needed = {name for name, text in rows.items() if text.endswith("[required]")}
    assert needed == {"--arch", "--part", "--calibration"}
