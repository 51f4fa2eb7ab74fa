"""The build process: runs under the interpreter that has the compiler, told by one job file."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

from .fault import MARK, BuildError
from .job import BuildJob
from .stages import Build


def main(arguments: list[str]) -> int:
    """Run the job whose file is the only argument; returns the exit code."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.INFO)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        Build(BuildJob.load(Path(arguments[0]))).run()
    except BuildError as error:
        sys.stderr.write(f"{MARK}{' '.join(str(error).split())}\n")
        return error.code
    return 0


def _end_with(supervisor: int) -> None:
    """End this process and its children when the supervisor has gone."""
    while os.getppid() == supervisor:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)
