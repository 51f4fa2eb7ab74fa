"""The `whisper-hailo` command, also as `python -m whisper_hailo`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

from whisper_hailo.cli.streams import prepare_streams

SIGNAL_EXIT = 128
"""A process that a signal ended leaves with this plus the signal's number."""
OPENBLAS_PATIENCE = "4"
"""As a power of two of processor cycles; its least."""
RETRY_S = 0.05
"""After which a signal that came during an import is sent again."""


def main() -> None:
    """Run the command line and leave with a documented exit code (`docs/errors.md`)."""
    prepare_streams()
    # OpenBLAS keeps its threads spinning for some hundredths of a second after each product: two
    # thirds of the processor time of live captions. It reads this when NumPy is imported.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", OPENBLAS_PATIENCE)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        from whisper_hailo.cli.app import run  # Ctrl-C may come while numpy is being imported

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("whisper-hailo: interrupted\n")
        sys.exit(SIGNAL_EXIT + signal.SIGINT)


def _leave(number: int, frame: FrameType | None) -> None:
    """Unwind, so that nothing half-written stays behind; not out of an import, but soon after.

    Extensions that are left half-way through their start may crash the process instead.
    """
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None:
        sys.exit(SIGNAL_EXIT + number)
    again = threading.Timer(RETRY_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


if __name__ == "__main__":
    main()
