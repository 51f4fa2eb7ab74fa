"""Entry point: collects the sub-commands, turns errors into one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Annotated

import typer

from whisper_hailo.cli.check import check
from whisper_hailo.cli.convert import convert
from whisper_hailo.cli.doctor import doctor
from whisper_hailo.cli.inspect import inspect
from whisper_hailo.cli.stdout import emit
from whisper_hailo.cli.transcribe import transcribe
from whisper_hailo.core.errors import ExitCode, WhisperHailoError
from whisper_hailo.core.version import __version__

DEBUG_VARIABLE = "WHISPER_HAILO_DEBUG"

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's base of wrong options and missing arguments: newer Typers carry their own Click."""

app = typer.Typer(
    name="whisper-hailo",
    help="Whisper speech-to-text on Hailo NPUs and plain edge CPUs, without a cloud.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(transcribe)
app.command()(convert)
app.command()(check)
app.command()(inspect)
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        emit(f"whisper-hailo {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")] = False,
) -> None:
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.WARNING, force=True)
    logging.getLogger("whisper_hailo").setLevel(logging.WARNING if quiet else logging.INFO)
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n")


def main() -> None:
    """Run the command line and leave with a documented exit code (`docs/errors.md`)."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command.

    Args:
        arguments: the words after the program's name.

    Returns:
        the exit code.
    """
    try:
        code = app(args=arguments, prog_name="whisper-hailo", standalone_mode=False)
    except UsageError as error:
        return _fail(f"{_usage_text(error)} (see --help)", ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        return ExitCode.OK
    except WhisperHailoError as error:
        return _fail(str(error), error.exit_code)
    except Exception as error:  # the last resort of the whole program
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        what = " ".join(f"{type(error).__name__}: {error}".split())
        advice = f"set {DEBUG_VARIABLE}=1 for the details and report it"
        return _fail(f"internal error ({what}); {advice}", ExitCode.INTERNAL)
    return int(code or 0)


def _usage_text(error: BaseException) -> str:
    """Click's own wording, such as `No such option: --windw`."""
    format_message = getattr(error, "format_message", None)
    return str(format_message() if format_message else error)


def _fail(message: str, code: ExitCode) -> int:
    print(f"whisper-hailo: {' '.join(message.split())}", file=sys.stderr)
    return code
