"""Entry of the laboratory's programs: logging, exit codes, help, progress, optional packages."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec
from time import monotonic
from typing import Literal, TypeAlias

from whisper_hailo.cli.messages import report_error
from whisper_hailo.cli.progress import StatusLine, clock
from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo_lab.repository import LAB, require_clone

LabExtra: TypeAlias = Literal["bench", "faster-whisper", "whisper-cpp"]


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


def install_command(extra: LabExtra) -> str:
    """Return the command that installs an extra; the clone has lock files with hashes."""
    if (LAB / "requirements" / f"{extra}.txt").is_file():
        return f"pip install -r lab/requirements/{extra}.txt in the clone"
    return f"pip install 'whisper-hailo-lab[{extra}]'"


def require_extra(extra: LabExtra, what: str, *modules: str) -> None:
    """Refuse to start without the modules of an extra.

    Raises:
        OptionError: one of them is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            name = module.replace("_", "-")
            raise OptionError(
                f"{what} needs {name}, which is not installed: {install_command(extra)}"
            )
