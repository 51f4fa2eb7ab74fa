"""Failures as one line on standard error, with their exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Final

from whisper_hailo.core.errors import ExitCode, WhisperHailoError

DEBUG_VARIABLE: Final = "WHISPER_HAILO_DEBUG"


_OF_A_PATH: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EILSEQ)
"""What the system has against a path, in whichever command it was given."""


def report(error: BaseException) -> ExitCode:
    """Print what went wrong.

    Args:
        error: ours, whose text says what to do, or one that nobody foresaw.

    Returns:
        the exit code that goes with it.
    """
    if isinstance(error, WhisperHailoError):
        complain(str(error))
        return error.exit_code
    if isinstance(error, OSError) and error.errno in _OF_A_PATH and error.filename is not None:
        complain(f"{error.filename!r} cannot be used ({error.strerror}); check the path")
        return ExitCode.USAGE
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    complain(describe(error))
    return ExitCode.INTERNAL


def was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is what an error comes from.

    Extensions that are being imported when it is pressed make an `ImportError` of it.
    """
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, KeyboardInterrupt):
        chain = chain.__cause__ or chain.__context__
    return chain is not None


def describe(error: BaseException) -> str:
    """The line of an error; one that nobody foresaw asks to be reported."""
    if isinstance(error, WhisperHailoError):
        return str(error)
    what = f"{type(error).__name__}: {error}"
    return f"internal error ({what}); set {DEBUG_VARIABLE}=1 for the details and report it"


def complain(message: str) -> None:
    """One line on standard error, whatever line ends a file's name may hold."""
    print(f"whisper-hailo: {' '.join(message.split())}", file=sys.stderr)
