"""Results go to standard output; a full disk behind it is reported like any other."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from whisper_hailo.core.errors import OutputError


class ReaderGoneError(Exception):
    """Nobody reads standard output any more, as after `head`: the end of the work, no failure.

    Not an `OSError`, of which Click makes an exit code of its own.
    """


def emit(text: str) -> None:
    """Write text to standard output, at once.

    Raises:
        OutputError: it does not fit the disk.
        ReaderGoneError: the reader went away.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        discard()
        raise ReaderGoneError from error
    except OSError as error:
        discard()
        raise OutputError(
            f"cannot write to standard output ({error.strerror}); free some space"
        ) from error


def emit_json(value: dict[str, Any], *, indent: int | None = None) -> None:
    """Write one JSON object and a line end, in ASCII, which every reader takes."""
    emit(json.dumps(value, allow_nan=False, indent=indent) + "\n")


def discard() -> None:
    """Drop what could not be written, or the interpreter would fail on it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
