"""Progress of long work on standard error."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Final

from whisper_hailo.cli.verbosity import is_quiet

MIN_DURATION_S: Final = 60.0
"""Shorter recordings are done before anyone wonders."""

_TERMINAL_INTERVAL_S: Final = 0.2
_LOG_INTERVAL_S: Final = 15.0


class Progress:
    """One line that is rewritten on a terminal, a line now and then elsewhere."""

    def __init__(self, name: str) -> None:
        """Begin for one input, called `name` in the line."""
        self._name = name
        self._terminal = sys.stderr.isatty()
        self._interval_s = _TERMINAL_INTERVAL_S if self._terminal else _LOG_INTERVAL_S
        self._begin_s = monotonic()
        self._last_s = self._begin_s
        self._shown = False
        self._known_s = 0.0

    def skip(self, known_s: float) -> None:
        """So many seconds of audio were done before, and tell nothing of the speed."""
        self._known_s = known_s

    def __call__(self, done_s: float, duration_s: float | None) -> None:
        """Report seconds of audio done, of how many when that is known."""
        now_s = monotonic()
        if done_s <= self._known_s:
            self._begin_s = now_s
        soon = now_s - self._last_s < self._interval_s
        if soon or is_quiet() or (duration_s or done_s) < MIN_DURATION_S:
            return
        self._last_s = now_s
        self._shown = True
        of = f" of {clock(duration_s)}" if duration_s is not None else ""
        speed = max(0.0, done_s - self._known_s) / max(now_s - self._begin_s, _TERMINAL_INTERVAL_S)
        line = f"{self._name}: {clock(done_s)}{of}, {speed:.1f} x real time"
        if duration_s is not None and speed:
            line += f", {clock(max(0.0, duration_s - done_s) / speed)} left"
        print(f"\r\x1b[K{line}" if self._terminal else line, end="", file=sys.stderr)
        print("", end="" if self._terminal else "\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line, which may come again."""
        if self._shown and self._terminal:
            self._shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """`h:mm:ss` or `m:ss`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
