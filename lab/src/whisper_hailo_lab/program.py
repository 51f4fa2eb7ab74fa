"""What the programs that measure have in common on their command lines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from whisper_hailo.cli.messages import report_error
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.repository import require_clone


def run(main: Callable[[], int | None]) -> int:
    """Run a program: what it logs goes to standard error, a failure of ours is one line there.

    Returns:
        the exit code.
    """
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        require_clone()
        return main() or 0
    except WhisperHailoError as error:
        return int(report_error(error))


def description(documentation: str | None) -> str:
    """The first line of a module's docstring, for its help."""
    return (documentation or "").partition("\n")[0]
