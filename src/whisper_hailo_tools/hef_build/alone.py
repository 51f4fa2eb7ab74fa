"""The bundle's `build.py` enters here: one command, one job, the log on standard error."""

from __future__ import annotations

import sys
from pathlib import Path

from .fault import INTERRUPTED, BuildError
from .supervise import supervise


def main(folder: Path) -> int:
    """Build the job of an unpacked bundle.

    Args:
        folder: where `job.json` lies.

    Returns:
        the exit code.
    """
    if sys.version_info < (3, 10):
        sys.stderr.write("build.py needs Python 3.10 or newer, the compiler's own\n")
        return 2
    try:
        record = supervise(folder / "job.json", _say)
    except BuildError as error:
        _say(f"build.py: {error}")
        return error.code
    except KeyboardInterrupt:
        _say("build.py: interrupted; start again: finished stages are kept")
        return INTERRUPTED
    snr = ", ".join(f"{name} {value:g} dB" for name, value in record["snr_db"].items())
    _say(f"built {folder / 'out' / record['hef']}" + (f", SNR {snr}" if snr else ""))
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
