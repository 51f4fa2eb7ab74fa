"""The `whisper-hailo` command, also as `python -m whisper_hailo`."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from types import FrameType

from whisper_hailo.cli.streams import prepare_streams

SIGNAL_EXIT = 128
"""The exit code after a signal is this plus the signal's number."""

OPENBLAS_PATIENCE = "4"
"""Least value: its threads wait 2 to this power of processor cycles for more work."""

GARBAGE_THRESHOLD = 20_000
"""New objects that start a search for garbage. At Python's 700 there are 90 searches before the
first recording, among the objects of imported modules, which all stay: a thirtieth of the time of
a short command."""

RETRY_S = 0.05
"""Delay after which a signal that came during an import is sent again."""


def main() -> None:
    """Run the command line and leave with a documented exit code (`docs/errors.md`)."""
    prepare_streams()
    gc.set_threshold(GARBAGE_THRESHOLD)
    # OpenBLAS keeps its threads spinning for some hundredths of a second after each product: two
    # thirds of the processor time of live captions. It reads this when NumPy is imported.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", OPENBLAS_PATIENCE)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        # Ctrl-C may come while numpy is being imported.
        from whisper_hailo.cli.app import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("whisper-hailo: interrupted\n")
        sys.exit(SIGNAL_EXIT + signal.SIGINT)


def _leave(number: int, frame: FrameType | None) -> None:
    """Unwind, so that nothing half-written stays behind; not out of an import, but soon after it.

    An extension module that is interrupted while it starts may crash the process.
    """
    while frame is not None and not frame.f_code.co_filename.startswith(
        "<frozen importlib"
    ):
        frame = frame.f_back
    if frame is None:
        sys.exit(SIGNAL_EXIT + number)
    timer = threading.Timer(RETRY_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
