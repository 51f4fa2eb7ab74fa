"""The program: its commands by name, and their errors as one line and an exit code."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import click

from whisper_hailo.cli.command import (
    ENV_PREFIX,
    TYPED,
    Command,
    command_of,
    given_options,
    write_options,
)
from whisper_hailo.cli.messages import (
    Verbosity,
    configure_logging,
    print_error,
    report_error,
    set_verbosity,
    was_interrupted,
)
from whisper_hailo.cli.options import options_of
from whisper_hailo.cli.streams import ReaderGoneError, emit
from whisper_hailo.core.errors import ExitCode, OptionError
from whisper_hailo.core.partial_options import from_command_line
from whisper_hailo.core.process import package_to_add
from whisper_hailo.core.version import __version__

PROGRAM: Final = "whisper-hailo"
COMPLETION_VARIABLE: Final = "_WHISPER_HAILO_COMPLETE"
"""Set by the shell that asks for completions, or for its script (`bash_source`)."""

GROUPS: Final = {
    "Use": ("transcribe", "batch", "caption", "serve", "models", "doctor"),
    "Convert": ("convert", "inspect", "fetch-hef"),
    "Hailo tools": ("validate", "check", "calibrate", "emulate", "compile"),
}
"""Commands of the manual in the order of the help; those of other packages follow."""

COMMAND_GROUPS: Final = {
    name: group for group, names in GROUPS.items() for name in names
}
"""Each of these commands with its group."""

TOOLS: Final = frozenset(GROUPS["Hailo tools"])
"""Those of them that `whisper-hailo-tools` brings."""

LABORATORY: Final = frozenset({"compare", "evaluate", "prepare", "report", "time"})
"""Commands that `whisper-hailo-lab` brings."""

_PACKAGES: Final = {**dict.fromkeys(TOOLS, "tools"), **dict.fromkeys(LABORATORY, "lab")}
"""The distribution that brings a command, as its folder in the repository is called."""

ENTRY_POINTS: Final = "whisper_hailo.commands"
"""Entry points of commands that other packages add, such as those that measure."""

RENAMED: Final = {"cures": "compare padding --grid"}
"""Commands of earlier versions, and what to type today."""

_MODULES: Final = {"inspect": "convert", "fetch-hef": "models"}
"""Commands that live in the module of another one."""


class Program(click.Group):
    """All commands; each is imported when it is needed, which saves a Raspberry Pi a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands that are installed, in the order of the help."""
        added = find_added_commands()
        names = [name for name in COMMAND_GROUPS if name not in TOOLS or name in added]
        names += [name for name in added if name not in COMMAND_GROUPS]
        return names

    def get_command(self, ctx: click.Context, cmd_name: str) -> Command | None:
        return load_command(cmd_name)

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the commands by group, then the options."""
        names = self.list_commands(ctx)
        width = max(map(len, names))
        rows: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            location = _find_command(name)
            if location is not None:
                row = (name.ljust(width), _read_summary(*location))
                rows.setdefault(_group_of(name), []).append(row)
        for title, commands in rows.items():
            with formatter.section(title):
                formatter.write_dl(commands)
        write_options(self.get_params(ctx), formatter)


def _group_of(name: str) -> str:
    if name in LABORATORY:
        return "Laboratory"
    return COMMAND_GROUPS.get(name, "Other packages")


@cache
def find_added_commands() -> dict[str, tuple[str, str]]:
    """Return modules and functions of the commands that other packages add."""
    # A third of the start of a quick command.
    from importlib.metadata import entry_points

    return {
        entry.name: (entry.module, entry.attr)
        for entry in entry_points(group=ENTRY_POINTS)
    }


@cache
def load_command(name: str) -> Command | None:
    """Return the command of a name, if there is one."""
    location = _find_command(name)
    if location is None:
        return None
    module, function = location
    return command_of(name, getattr(import_module(module), function))


def _find_command(name: str) -> tuple[str, str] | None:
    """Return the module and the function of a command, if there is one."""
    if name in COMMAND_GROUPS and name not in TOOLS:
        function = name.replace("-", "_")
        module = _MODULES.get(name, function)
        return f"whisper_hailo.cli.commands.{module}", function
    location = find_added_commands().get(name)
    if location is None and name in _PACKAGES:
        package = _PACKAGES[name]
        raise OptionError(
            f"{name} needs whisper-hailo-{package}, which is not installed: "
            f"{package_to_add(package)}"
        )
    return location


def _read_summary(module: str, function: str) -> str:
    """Return the first paragraph of a command's docstring; its source is read, not imported."""
    spec = find_spec(module)
    loader: Any = spec and spec.loader
    pattern = rf'^def {function}\(.*?"""(.+?)(?:\n\n|""")'
    match = re.search(pattern, loader.get_source(module), re.DOTALL | re.MULTILINE)
    return "" if match is None else match[1]


@click.pass_context
def _begin_program(context: click.Context, /, **parsed: Any) -> None:  # noqa: ANN401 - of any option
    """Configure logging, which commands may do again; without a command print the help."""
    configure_logging()
    set_verbosity(from_command_line(Verbosity, given_options(context, parsed)).build())
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n")


PROGRAM_GROUP: Final = Program(
    PROGRAM,
    help="Whisper speech-to-text on Hailo NPUs and plain edge CPUs, without a cloud.",
    params=[*options_of(Verbosity)],
    callback=_begin_program,
    invoke_without_command=True,
    context_settings={
        "auto_envvar_prefix": ENV_PREFIX,
        # `--initial_prompt` as in OpenAI Whisper's command is `--initial-prompt`.
        "token_normalize_func": lambda token: token.replace("_", "-"),
        "help_option_names": ["-h", "--help"],
    },
)


click.version_option(
    __version__,
    prog_name=PROGRAM,
    message="%(prog)s %(version)s",
    allow_from_autoenv=False,  # `WHISPER_HAILO_VERSION` is often that of an image
)(PROGRAM_GROUP)


def run(arguments: list[str]) -> int:
    """Run one command; return its exit code (`docs/errors.md`)."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    try:
        instruction = os.environ.get(COMPLETION_VARIABLE)
        if instruction is not None:
            from click.shell_completion import shell_complete

            return shell_complete(
                PROGRAM_GROUP, {}, PROGRAM, COMPLETION_VARIABLE, instruction
            )
        with PROGRAM_GROUP.make_context(PROGRAM, list(arguments)) as context:
            try:
                code = int(PROGRAM_GROUP.invoke(context) or 0)
            except OptionError as error:
                typed = context.meta.get(TYPED, {})
                raise OptionError(_name_typed_options(str(error), typed)) from error
    except click.exceptions.Exit as end:  # after --help or --version
        return end.exit_code
    except click.UsageError as error:
        print_error(f"{_usage_text(error, arguments)} (see --help)")
        return ExitCode.USAGE
    except ReaderGoneError:
        return ExitCode.OK
    except (
        KeyboardInterrupt,
        Exception,
    ) as error:  # the last resort of the whole program
        if not was_interrupted(error):
            return report_error(error)
        code = ExitCode.INTERRUPTED
    if code == ExitCode.INTERRUPTED:
        print_error("interrupted")
    return code


def _name_typed_options(message: str, typed: Mapping[str, str]) -> str:
    """Return a message about an option with the name that was typed for it, if it was another."""
    words = re.findall(r"--[\w-]+", message)
    for ours, name in typed.items():
        if ours in words and name not in words:
            return f"{message} ({name} is {ours} here)"
    return message


def _usage_text(error: click.UsageError, arguments: list[str]) -> str:
    """Return Click's own wording, such as `No such option: --windw`, or a better one."""
    text = error.format_message()
    if _names_recording_first(error, arguments):
        return (
            f"no command given; type: {shlex.join([PROGRAM, 'transcribe', *arguments])}"
        )
    if isinstance(error, click.exceptions.NoSuchCommand):
        renamed = RENAMED.get(error.command_name)
        if renamed is not None:
            return f"{error.command_name} was renamed; type: {PROGRAM} {renamed}"
        names = [*COMMAND_GROUPS, *find_added_commands()]
        similar = get_close_matches(error.command_name, names, 1)
        return f"{text} Did you mean {similar[0]!r}?" if similar else text
    if (
        isinstance(error, click.MissingParameter)
        and getattr(error.param, "name", "") == "audio"
    ):
        text = "no recording given, expected files, folders, or - for a pipe"
    if any(word.startswith("-") and os.path.exists(word) for word in arguments):
        return f"{text}; put -- before names that start with -"
    return text


def _names_recording_first(error: click.UsageError, arguments: list[str]) -> bool:
    """Return whether a file stands where a command was expected, as in `whisper-hailo talk.mp3`."""
    is_of_program = error.ctx is not None and error.ctx.parent is None
    if not is_of_program:
        return False
    typed = getattr(error, "command_name", "")  # Click has put hyphens for underscores
    # Only the word in the command's place counts, or a misspelt command would pass for a recording.
    words = arguments
    if typed:
        words = [word for word in arguments if word.replace("_", "-") == typed]
    return any(map(os.path.exists, words))
