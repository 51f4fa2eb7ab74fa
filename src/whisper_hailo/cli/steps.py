"""Progress of work in steps on standard error."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Final

from whisper_hailo.cli.progress import clock
from whisper_hailo.cli.verbosity import is_quiet

_TERMINAL_INTERVAL_S: Final = 0.1
_LOG_INTERVAL_S: Final = 15.0


class Steps:
    """One line that is rewritten on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._interval_s = _TERMINAL_INTERVAL_S if self._terminal else _LOG_INTERVAL_S
        self._begin_s = monotonic()
        self._last_s = self._begin_s

    def __call__(self, done: int, total: int, what: str) -> None:
        """Report steps done, of how many, and what is done now."""
        now_s = monotonic()
        if is_quiet() or now_s - self._last_s < self._interval_s:
            return
        self._last_s = now_s
        line = f"{done} of {total}, {clock(now_s - self._begin_s)}: {what}"
        if self._terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
