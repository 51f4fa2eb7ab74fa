"""Progress of long work on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from time import monotonic
from typing import Final

from rich.cells import cell_len, set_cell_size

from whisper_hailo.cli.messages import is_quiet

_ERASE: Final = "\r\x1b[K"
_TERMINAL_INTERVAL_S: Final = 0.2
LOG_INTERVAL_S: Final = 15.0

MIN_DURATION_S: Final = 60.0
"""Shorter recordings are done before anyone wonders."""

_MIN_ELAPSED_S: Final = 0.2
"""Less time than this says nothing about the speed."""


class StatusLine:
    """A line that is rewritten on a terminal, and printed now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = is_terminal()
        self._interval_s = _TERMINAL_INTERVAL_S if self._terminal else LOG_INTERVAL_S
        self._begin_s = monotonic()
        self._last_s = self._begin_s
        self._is_shown = False

    def update(self, line: str, name: str = "") -> None:
        """Replace the line if it is old enough; a terminal erases one row, so the name is cut."""
        now_s = monotonic()
        if is_quiet() or now_s - self._last_s < self._interval_s:
            return
        self._last_s = now_s
        self._is_shown = True
        if not self._terminal:
            print(_join_name(name, line), file=sys.stderr, flush=True)
            return
        room = terminal_width() - 1  # the last column may wrap
        name = crop_text(name, room - cell_len(f": {line}"))
        text = crop_text(_join_name(name, line), room)
        print(_ERASE + text, end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Erase the line on a terminal, so that other text may be printed there."""
        if self._is_shown and self._terminal:
            self._is_shown = False
            print(_ERASE, end="", file=sys.stderr, flush=True)


def _join_name(name: str, line: str) -> str:
    return f"{name}: {line}" if name else line


def crop_text(text: str, room: int) -> str:
    """Shorten a text to `room` columns, with an ellipsis."""
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, room - 1) + "…" if room > 0 else ""


def is_terminal() -> bool:
    """Return whether standard error is a terminal."""
    return sys.stderr.isatty()


def terminal_width() -> int:
    """Return the width of the terminal on standard error."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80  # some report 0
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


class Progress(StatusLine):
    """Progress, speed and remaining time of one input."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._known_s = 0.0

    def skip(self, known_s: float) -> None:
        """Exclude audio of an earlier run from the speed."""
        self._known_s = known_s

    def __call__(self, done_s: float, duration_s: float | None) -> None:
        """Report the seconds done, of how many if that is known."""
        now_s = monotonic()
        if (
            done_s <= self._known_s
        ):  # windows of an earlier run pass at once: time begins after
            self._begin_s = now_s
        if (duration_s or done_s) < MIN_DURATION_S:
            return
        elapsed_s = max(now_s - self._begin_s, _MIN_ELAPSED_S)
        speed = max(0.0, done_s - self._known_s) / elapsed_s
        line = clock(done_s)
        if duration_s is not None:
            line += f" of {clock(duration_s)}"
        line += f", {speed:.1f} x real time"
        if duration_s is not None and speed:
            remaining_s = max(0.0, duration_s - done_s) / speed
            line += f", {clock(remaining_s)} left"
        self.update(line, self._name)


def clock(seconds: float) -> str:
    """Format seconds as `h:mm:ss`, or `m:ss` below an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
