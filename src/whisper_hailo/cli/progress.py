"""Progress of long work on standard error."""

from __future__ import annotations

from time import monotonic
from typing import Final

from whisper_hailo.cli.status_line import StatusLine

MIN_DURATION_S: Final = 60.0
"""Shorter recordings are done before anyone wonders."""

_LEAST_S: Final = 0.2
"""A speed is told of so long at least."""


class Progress:
    """How far one input is, how fast, and what is left.

    Args:
        name: of the input.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin_s = monotonic()
        self._line = StatusLine(self._begin_s)
        self._known_s = 0.0

    def skip(self, known_s: float) -> None:
        """So many seconds of audio were done before, and tell nothing of the speed."""
        self._known_s = known_s

    def __call__(self, done_s: float, duration_s: float | None) -> None:
        """Report seconds of audio done, of how many when that is known."""
        now_s = monotonic()
        if done_s <= self._known_s:
            self._begin_s = now_s
        if (duration_s or done_s) < MIN_DURATION_S or not self._line.is_due(now_s):
            return
        of = f" of {clock(duration_s)}" if duration_s is not None else ""
        speed = max(0.0, done_s - self._known_s) / max(now_s - self._begin_s, _LEAST_S)
        line = f"{clock(done_s)}{of}, {speed:.1f} x real time"
        if duration_s is not None and speed:
            line += f", {clock(max(0.0, duration_s - done_s) / speed)} left"
        self._line.show(now_s, line, self._name)

    def close(self) -> None:
        """Clear the line, which may come again."""
        self._line.close()


def clock(seconds: float) -> str:
    """`h:mm:ss`, or `m:ss` below an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
