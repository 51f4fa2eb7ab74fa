"""Collects the sub-commands; turns their errors into one line and an exit code."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from whisper_hailo.cli.calibrate import calibrate
from whisper_hailo.cli.caption import caption
from whisper_hailo.cli.check import check
from whisper_hailo.cli.compare import compare
from whisper_hailo.cli.compile import compile_hef
from whisper_hailo.cli.convert import convert
from whisper_hailo.cli.cures import cures
from whisper_hailo.cli.doctor import doctor
from whisper_hailo.cli.emulate import emulate
from whisper_hailo.cli.evaluate import evaluate
from whisper_hailo.cli.fetch_hef import fetch_hef
from whisper_hailo.cli.inspect import inspect
from whisper_hailo.cli.prepare import prepare
from whisper_hailo.cli.report import complain, report
from whisper_hailo.cli.stdout import ReaderGoneError, emit
from whisper_hailo.cli.time import time
from whisper_hailo.cli.transcribe import transcribe
from whisper_hailo.cli.validate import validate
from whisper_hailo.cli.write_report import write_report
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.version import __version__

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's base of wrong options and missing arguments: newer Typers carry their own Click."""

app = typer.Typer(
    name="whisper-hailo",
    help="Whisper speech-to-text on Hailo NPUs and plain edge CPUs, without a cloud.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(transcribe)
app.command()(cures)
app.command()(caption)
app.command()(convert)
app.command()(check)
app.command()(validate)
app.command()(calibrate)
app.command()(emulate)
app.command("compile")(compile_hef)
app.command()(evaluate)
app.command()(compare)
app.command()(prepare)
app.command("fetch-hef")(fetch_hef)
app.command("report")(write_report)
app.command()(inspect)
app.command()(time)
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


def run(arguments: list[str]) -> int:
    """Run one command.

    Args:
        arguments: the words after the program's name.

    Returns:
        the exit code, as documented in `docs/errors.md`.
    """
    try:
        code = int(app(args=arguments, prog_name="whisper-hailo", standalone_mode=False) or 0)
    except UsageError as error:
        complain(f"{_usage_text(error)} (see --help)")
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except ReaderGoneError:
        return ExitCode.OK
    except Exception as error:  # the last resort of the whole program
        return report(error)
    if code == ExitCode.INTERRUPTED:  # newer Typers return it, older ones raise
        complain("interrupted")
    return code


def _usage_text(error: BaseException) -> str:
    """Click's own wording, such as `No such option: --windw`."""
    format_message = getattr(error, "format_message", None)
    return str(format_message() if format_message else error)
