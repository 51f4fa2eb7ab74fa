"""Progress of work in steps on standard error."""

from __future__ import annotations

from time import monotonic

from whisper_hailo.cli.progress import clock
from whisper_hailo.cli.status_line import StatusLine


class Steps:
    """How many steps of how many are done, and what is done now."""

    def __init__(self) -> None:
        self._begin_s = monotonic()
        self._line = StatusLine(self._begin_s)

    def __call__(self, done: int, total: int, what: str) -> None:
        """Report steps done, of how many, and what is done now."""
        now_s = monotonic()
        if self._line.is_due(now_s):
            line = f"{done} of {total}, {clock(now_s - self._begin_s)}: {what}"
            self._line.show(now_s, line)

    def close(self) -> None:
        self._line.close()
