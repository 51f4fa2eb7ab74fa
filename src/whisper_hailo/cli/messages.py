"""Messages on standard error: errors, notes and logs, one line each."""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.errors import (
    ExitCode,
    OptionError,
    WhisperHailoError,
    display_path,
)
from whisper_hailo.core.flags import flag

DEBUG_VARIABLE: Final = "WHISPER_HAILO_DEBUG"

LONGEST_LINE: Final = 500
"""Characters of a line on standard error."""

_ELLIPSIS: Final = " ... "
_PREFIX: Final = "whisper-hailo: "
PRODUCT_LOGGER: Final = "whisper_hailo"
"""The logger of the product."""

_PATH_ERRORS: Final = (
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.EILSEQ,
)
"""Errors that a path causes, whichever command it was given to: no fault of this program."""


def report_error(error: BaseException) -> ExitCode:
    """Print an error, unexpected ones with advice; return its exit code."""
    explained = _explain_error(error)
    print_error(_message_of(explained))
    code = (
        explained.exit_code
        if isinstance(explained, WhisperHailoError)
        else ExitCode.INTERNAL
    )
    if code == ExitCode.INTERNAL and os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    return code


def describe_error(error: BaseException) -> str:
    """Return the line that `report_error` prints."""
    return one_line(_message_of(_explain_error(error)))


def _explain_error(error: BaseException) -> BaseException:
    """Return an error that says what to do in place of a system error that a user can cause."""
    if (
        isinstance(error, OSError)
        and error.filename is not None
        and error.errno in _PATH_ERRORS
    ):
        name = display_path(os.fsdecode(error.filename))
        return OptionError(f"{name} cannot be used ({error.strerror}); check the path")
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return OptionError(
            "the working directory was deleted, so relative paths cannot be resolved; change to "
            "another"
        )
    return error


def _message_of(error: BaseException) -> str:
    """Return the message of an error, an unexpected one with advice."""
    if isinstance(error, WhisperHailoError):
        # Our messages have one line: a line end in one is that of a file name, and is escaped.
        return _escape_invisible(str(error).strip())
    summary = one_line(f"{type(error).__name__}: {error}", LONGEST_LINE // 2)
    advice = f"set {DEBUG_VARIABLE}=1 for the details and report it"
    return f"internal error ({summary}); {advice}"


def was_interrupted(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an error: extensions turn it into an `ImportError`."""
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, KeyboardInterrupt):
        chain = chain.__cause__ or chain.__context__
    return chain is not None


def print_error(message: str) -> None:
    """Print an error as one line on standard error."""
    print_line(_PREFIX + one_line(message, LONGEST_LINE - len(_PREFIX)))


def print_line(message: str) -> None:
    """Print one line on standard error."""
    print(one_line(message), file=sys.stderr)


def print_note(message: str) -> None:
    """Print a line on standard error, unless quiet."""
    if not is_quiet():
        print_line(message)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Sanitize a text: no line ends, no terminal escapes, no invisible characters."""
    parts = [part.strip() for part in text.splitlines()]
    line = _escape_invisible(" ".join(part for part in parts if part))
    if len(line) <= longest:
        return line
    half = (longest - len(_ELLIPSIS)) // 2
    return line[:half] + _ELLIPSIS + line[-half:]


def _escape_invisible(text: str) -> str:
    """Escape invisible characters, as Python writes them in quotes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class OneLine(logging.Formatter):
    """Format log records as one line each."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


@dataclass(frozen=True, slots=True)
class Verbosity:
    """How much goes to standard error."""

    verbose: bool = flag(False, "Log details, such as the engine.", short="-v")
    quiet: bool = flag(
        False, "Only warnings and errors.", short="-q", also=("-np", "--no-prints")
    )

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
    logging.getLogger(PRODUCT_LOGGER).setLevel(
        logging.DEBUG if verbosity.verbose else usual
    )


def is_verbose() -> bool:
    """Return whether this run logs details, as with `--verbose`."""
    return logging.getLogger(PRODUCT_LOGGER).isEnabledFor(logging.DEBUG)


def is_quiet() -> bool:
    """Return whether only warnings and errors are logged."""
    return logging.getLogger(PRODUCT_LOGGER).level >= logging.WARNING
