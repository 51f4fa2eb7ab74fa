"""What a command tells: failures and notes, one line each, as much as is asked for."""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import ExitCode, OptionError, WhisperHailoError, display_path
from whisper_hailo.core.flags import flag

DEBUG_VARIABLE: Final = "WHISPER_HAILO_DEBUG"

LONGEST_LINE: Final = 500
"""Characters of a line on standard error."""

_LEFT_OUT: Final = " ... "
_PROGRAM: Final = "whisper-hailo: "


_OF_A_PATH: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EILSEQ)
"""What the system has against a path, in whichever command it was given."""


def report(error: BaseException) -> ExitCode:
    """Print an error, unexpected ones with advice; return its exit code."""
    error = _foreseen(error)
    complain(_described(error))
    if isinstance(error, WhisperHailoError):
        return error.exit_code
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    return ExitCode.INTERNAL


def describe(error: BaseException) -> str:
    """Return the line that `report` prints."""
    return one_line(_described(_foreseen(error)))


def was_interrupted(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an error: extensions turn it into an `ImportError`."""
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, KeyboardInterrupt):
        chain = chain.__cause__ or chain.__context__
    return chain is not None


def _foreseen(error: BaseException) -> BaseException:
    """Return an error of ours for one that any file name can cause."""
    if not isinstance(error, OSError):
        return error
    if error.filename is not None and error.errno in _OF_A_PATH:
        name = display_path(os.fsdecode(error.filename))
        return OptionError(f"{name} cannot be used ({error.strerror}); check the path")
    if error.filename is None and isinstance(error, FileNotFoundError) and not _has_directory():
        return OptionError(
            "the working directory was deleted, expected one that relative names are looked up "
            "in; change to another"
        )
    return error


def _has_directory() -> bool:
    """Return whether there is a working directory."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _described(error: BaseException) -> str:
    if isinstance(error, WhisperHailoError):
        return _visible(str(error).strip())  # ours are one line: another is of a name
    what = one_line(f"{type(error).__name__}: {error}", LONGEST_LINE // 2)
    return f"internal error ({what}); set {DEBUG_VARIABLE}=1 for the details and report it"


def complain(message: str) -> None:
    """Print an error as one line on standard error."""
    tell(_PROGRAM + one_line(message, LONGEST_LINE - len(_PROGRAM)))


def tell(message: str) -> None:
    """Print one line on standard error."""
    print(one_line(message), file=sys.stderr)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Sanitize a text: no line ends, no terminal escapes, no invisible characters."""
    line = " ".join(filter(None, (part.strip() for part in text.splitlines())))
    line = _visible(line)
    if len(line) <= longest:
        return line
    half = (longest - len(_LEFT_OUT)) // 2
    return line[:half] + _LEFT_OUT + line[-half:]


def _visible(text: str) -> str:
    """Escape invisible characters, as Python writes them in quotes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class OneLine(logging.Formatter):
    """Format log records as one line each."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


_OURS: Final = "whisper_hailo"


@dataclass(frozen=True, slots=True)
class Verbosity:
    """How much goes to standard error."""

    verbose: bool = flag(False, "Log details, such as the engine.", short="-v")
    quiet: bool = flag(False, "Only warnings and errors.", short="-q", also=("-np", "--no-prints"))

    def __post_init__(self) -> None:
        if self.verbose and self.quiet:
            raise OptionError("--verbose and --quiet contradict each other; give one")

    @property
    def level(self) -> int:
        return logging.DEBUG if self.verbose else logging.WARNING if self.quiet else logging.INFO


def configure_logging() -> None:
    """Log to standard error, each record one line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def set_verbosity(verbosity: Verbosity) -> None:
    """Set the log level."""
    logging.getLogger(_OURS).setLevel(verbosity.level)


def log_package(package: str) -> None:
    """Log another package at the same level as ours."""
    logging.getLogger(package).setLevel(logging.getLogger(_OURS).level)


def is_verbose() -> bool:
    """Return whether this run logs details, as with `--verbose`."""
    return logging.getLogger(_OURS).isEnabledFor(logging.DEBUG)


def is_quiet() -> bool:
    """Return whether only warnings and errors are logged."""
    return logging.getLogger(_OURS).level >= logging.WARNING


def note(message: str) -> None:
    """Print a line on standard error, unless quiet."""
    if not is_quiet():
        tell(message)
