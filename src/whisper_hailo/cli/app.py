"""Collects the sub-commands; turns their errors into one line and an exit code."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.main import get_command

from whisper_hailo.cli.command_table import MEASURE, OWN, commands
from whisper_hailo.cli.commands.completion import PROGRAM, VARIABLE
from whisper_hailo.cli.failures import complain, report, was_interrupted
from whisper_hailo.cli.groups import flattened
from whisper_hailo.cli.habits import Habits
from whisper_hailo.cli.help import Command, CommandGroup
from whisper_hailo.cli.stdout import emit
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.cli.verbosity import Loudness, Talk, begin_to_talk, set_loudness
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.names import shown
from whisper_hailo.core.version import __version__

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's base of wrong options and missing arguments: newer Typers carry their own Click."""


_NUMBERS = (("integer", "whole number"), ("float", "number"), ("number", "number"))
"""Of what Click, old and new, says of a value that is none, and what we say."""


def app_of(arguments: list[str]) -> typer.Typer:
    """With the command that is called, or all of them for help."""
    called = next((word for word in arguments if not word.startswith("-")), None)
    return _app_with(*commands(called).items())


@cache
def _app_with(*called: tuple[str, Callable[..., Any]]) -> typer.Typer:
    """With these commands by their names."""
    app = typer.Typer(
        name=PROGRAM,
        help="Whisper speech-to-text on Hailo NPUs and plain edge CPUs, without a cloud.",
        cls=CommandGroup,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={
            # `--initial_prompt` as in OpenAI Whisper's command is `--initial-prompt`.
            "token_normalize_func": lambda token: token.replace("_", "-"),
            "help_option_names": ["-h", "--help"],
        },
    )
    app.callback(invoke_without_command=True)(flattened(_common))
    for name, command in called:
        package = command.__module__.partition(".")[0]
        function = flattened(command, Talk(package), Habits())
        app.command(name, cls=Command, rich_help_panel=OWN.get(name, MEASURE))(function)
    return app


_parser = cache(get_command)
"""What reads the words for an app: a hundred options, which Typer would make anew for every run."""


def _print_version(wanted: bool) -> None:
    if wanted:
        emit(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


def _common(
    context: typer.Context,
    loudness: Loudness,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    begin_to_talk()
    set_loudness(loudness)
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n")


def run(arguments: list[str]) -> int:
    """Run one command.

    Returns:
        the exit code, as documented in `docs/errors.md`.
    """
    try:
        if arguments == ["--version"]:  # needs no command, of which help imports all
            emit(f"{PROGRAM} {__version__}\n")
            return ExitCode.OK
        if arguments[:1] == ["help"]:
            arguments = [*arguments[1:2], "--help"]
        parser = _parser(app_of(_completed() or arguments))
        code = int(parser(args=arguments, prog_name=PROGRAM, standalone_mode=False) or 0)
    except UsageError as error:
        complain(f"{_usage_text(error, arguments)} (see --help)")
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except ReaderGoneError:
        return ExitCode.OK
    except Exception as error:  # the last resort of the whole program
        if not was_interrupted(error):
            return report(error)
        code = ExitCode.INTERRUPTED
    if code == ExitCode.INTERRUPTED:  # newer Typers return it, older ones raise
        complain("interrupted")
    return code


def _completed() -> list[str]:
    """The words after the program's name that a shell wants completed, if it is one that asks."""
    if VARIABLE not in os.environ:
        return []
    from typer import completion

    completion.completion_init()  # type: ignore[attr-defined]
    words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return words.split()[1:]


def _given(error: BaseException, arguments: list[str]) -> str:
    """The option of an error with what was typed behind it; nothing where that is not known."""
    names: Sequence[str] = getattr(getattr(error, "param", None), "opts", ())
    for word, behind in pairwise([*arguments, ""]):
        name, joined, value = word.partition("=")
        if word.startswith("-") and name.replace("_", "-") in names:
            return f"{names[0]} is {(value if joined else behind)!r}"
    return ""


def _usage_text(error: BaseException, arguments: list[str]) -> str:
    """Click's own wording, such as `No such option: --windw`; a recording is no command."""
    format_message = getattr(error, "format_message", None)
    text = str(format_message() if format_message else error)
    named = next((word for word in arguments if not word.startswith("-")), "")
    kind = next((kind for word, kind in _NUMBERS if word in text), None)
    if kind and text.startswith("Invalid value") and (given := _given(error, arguments)):
        return f"{given}, expected a {kind}"
    if text.startswith("Missing argument 'audio'"):
        text = "no recording is named, expected files, folders, or - for a pipe"
    if any(word.startswith("-") and os.path.exists(word) for word in arguments):
        return f"{text}; a name that begins with - stands behind --"
    if text.startswith("No such command") and os.path.exists(named):
        words = shlex.join(arguments)
        return (
            f"{shown(named)} is no command; to make text of it, type: {PROGRAM} transcribe {words}"
        )
    return text
