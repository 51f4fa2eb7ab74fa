"""The `whisper-hailo` command, also as `python -m whisper_hailo`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

SIGNAL_EXIT = 128
"""A process that a signal ended leaves with this plus the signal's number."""


def main() -> None:
    """Run the command line and leave with a documented exit code (`docs/errors.md`)."""
    _prepare_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        from whisper_hailo.cli.app import run  # Ctrl-C may come while numpy is being imported

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("whisper-hailo: interrupted\n")
        sys.exit(SIGNAL_EXIT + signal.SIGINT)


def _leave(number: int, _frame: FrameType | None) -> None:
    """Unwind, so that nothing half-written stays behind."""
    sys.exit(SIGNAL_EXIT + number)


def _prepare_streams() -> None:
    """Closed streams swallow what is written; letters that a terminal lacks are escaped."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
