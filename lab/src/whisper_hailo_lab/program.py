"""Entry of the laboratory's programs: logging, exit codes, help, and their progress."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from time import monotonic

from whisper_hailo.cli.messages import report_error
from whisper_hailo.cli.progress import StatusLine, clock
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.repository import require_clone


def run_program(main: Callable[[], int | None]) -> int:
    """Run a program with its log on standard error; an error of ours is one line there.

    Returns:
        exit code.
    """
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        require_clone()
        return main() or 0
    except WhisperHailoError as error:
        return int(report_error(error))


def first_line(docstring: str | None) -> str:
    """Return the first line of a module's docstring, for its help."""
    return (docstring or "").partition("\n")[0]


class StepProgress(StatusLine):
    """A status line with the current step, the number of steps, and the time so far."""

    def __init__(self) -> None:
        super().__init__()
        self._begin_s = monotonic()

    def __call__(
        self,
        done: int,
        total: int,
        name: str,
    ) -> None:
        """Show the number of finished steps and the name of the current one."""
        elapsed = clock(monotonic() - self._begin_s)
        self.update(f"{done} of {total}, {elapsed}: {name}")
