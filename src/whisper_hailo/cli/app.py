"""Collects the sub-commands; turns their errors into one line and an exit code."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from whisper_hailo.cli.commands import commands
from whisper_hailo.cli.failures import OneLine, complain, report, was_interrupted
from whisper_hailo.cli.stdout import emit
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.version import __version__

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's base of wrong options and missing arguments: newer Typers carry their own Click."""


def _app(arguments: list[str]) -> typer.Typer:
    """With the command that is called, or all of them for help."""
    app = typer.Typer(
        name="whisper-hailo",
        help="Whisper speech-to-text on Hailo NPUs and plain edge CPUs, without a cloud.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        # `--initial_prompt` as in OpenAI Whisper's command is `--initial-prompt`.
        context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
    )
    app.callback(invoke_without_command=True)(_common)
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, command in commands(called).items():
        app.command(name)(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        emit(f"whisper-hailo {__version__}\n")
        raise typer.Exit


def _common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")] = False,
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("whisper_hailo").setLevel(logging.WARNING if quiet else logging.INFO)
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n")


def run(arguments: list[str]) -> int:
    """Run one command.

    Args:
        arguments: the words after the program's name.

    Returns:
        the exit code, as documented in `docs/errors.md`.
    """
    try:
        app = _app(arguments)
        code = int(app(args=arguments, prog_name="whisper-hailo", standalone_mode=False) or 0)
    except UsageError as error:
        complain(f"{_usage_text(error)} (see --help)")
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


def _usage_text(error: BaseException) -> str:
    """Click's own wording, such as `No such option: --windw`."""
    format_message = getattr(error, "format_message", None)
    return str(format_message() if format_message else error)
