"""What a command tells: failures and notes, one line each, as much as is asked for."""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.errors import ExitCode, OptionError, WhisperHailoError, display_path
from whisper_hailo.core.flags import flag

DEBUG_VARIABLE: Final = "WHISPER_HAILO_DEBUG"

LONGEST_LINE: Final = 500
"""Characters of a line on standard error."""

_LEFT_OUT: Final = " ... "
_PROGRAM: Final = "whisper-hailo: "
PRODUCT_LOGGER: Final = "whisper_hailo"
"""The logger of the product."""

_OF_A_PATH: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EILSEQ)
"""What the system has against a path, in whichever command it was given."""


def report(error: BaseException) -> ExitCode:
    """Print an error, unexpected ones with advice; return its exit code."""
    message, code = _explain_error(error)
    complain(message)
    if code == ExitCode.INTERNAL and os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    return code


def describe(error: BaseException) -> str:
    """Return the line that `report` prints."""
    return one_line(_explain_error(error)[0])


def _explain_error(error: BaseException) -> tuple[str, ExitCode]:
    """Return the message and the exit code of an error; any file name can cause some of them."""
    if isinstance(error, OSError) and error.filename is not None and error.errno in _OF_A_PATH:
        name = display_path(os.fsdecode(error.filename))
        error = OptionError(f"{name} cannot be used ({error.strerror}); check the path")
    elif isinstance(error, FileNotFoundError) and error.filename is None:
        error = OptionError(
            "the working directory was deleted, expected one that relative names are looked up "
            "in; change to another"
        )
    if isinstance(error, WhisperHailoError):
        return _escape_invisible(
            str(error).strip()
        ), error.exit_code  # one line: others are of a name
    what = one_line(f"{type(error).__name__}: {error}", LONGEST_LINE // 2)
    advice = f"set {DEBUG_VARIABLE}=1 for the details and report it"
    return f"internal error ({what}); {advice}", ExitCode.INTERNAL


def was_interrupted(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an error: extensions turn it into an `ImportError`."""
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, KeyboardInterrupt):
        chain = chain.__cause__ or chain.__context__
    return chain is not None


def complain(message: str) -> None:
    """Print an error as one line on standard error."""
    tell(_PROGRAM + one_line(message, LONGEST_LINE - len(_PROGRAM)))


def tell(message: str) -> None:
    """Print one line on standard error."""
    print(one_line(message), file=sys.stderr)


def note(message: str) -> None:
    """Print a line on standard error, unless quiet."""
    if not is_quiet():
        tell(message)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Sanitize a text: no line ends, no terminal escapes, no invisible characters."""
    line = _escape_invisible(" ".join(filter(None, (part.strip() for part in text.splitlines()))))
    half = (longest - len(_LEFT_OUT)) // 2
    return line if len(line) <= longest else line[:half] + _LEFT_OUT + line[-half:]


def _escape_invisible(text: str) -> str:
    """Escape invisible characters, as Python writes them in quotes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class OneLine(logging.Formatter):
    """Format log records as one line each."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


@dataclass(frozen=True, slots=True)
class Verbosity:
    """How much goes to standard error."""

    verbose: bool = flag(False, "Log details, such as the engine.", short="-v")
    quiet: bool = flag(False, "Only warnings and errors.", short="-q", also=("-np", "--no-prints"))

    def __post_init__(self) -> None:
        if self.verbose and self.quiet:
            raise OptionError("--verbose and --quiet contradict each other; give one")


def configure_logging() -> None:
    """Log to standard error, each record one line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def set_verbosity(verbosity: Verbosity) -> None:
    """Set the log level."""
    usual = logging.WARNING if verbosity.quiet else logging.INFO
    logging.getLogger(PRODUCT_LOGGER).setLevel(logging.DEBUG if verbosity.verbose else usual)


def is_verbose() -> bool:
    """Return whether this run logs details, as with `--verbose`."""
    return logging.getLogger(PRODUCT_LOGGER).isEnabledFor(logging.DEBUG)


def is_quiet() -> bool:
    """Return whether only warnings and errors are logged."""
    return logging.getLogger(PRODUCT_LOGGER).level >= logging.WARNING
