"""A line on standard error that says how far work is."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final

from rich.cells import cell_len, set_cell_size

from whisper_hailo.cli.verbosity import is_quiet

_ERASE: Final = "\r\x1b[K"
_TERMINAL_INTERVAL_S: Final = 0.2
_LOG_INTERVAL_S: Final = 15.0
_CUT: Final = "…"


class StatusLine:
    """Rewritten in place on a terminal; a line now and then elsewhere.

    Args:
        now_s: of the clock that `is_due` is asked by.
    """

    def __init__(self, now_s: float) -> None:
        self._terminal = _on_terminal()
        self._interval_s = _TERMINAL_INTERVAL_S if self._terminal else _LOG_INTERVAL_S
        self._last_s = now_s
        self._shown = False

    def is_due(self, now_s: float) -> bool:
        """Whether the one before has been there for long enough."""
        return not is_quiet() and now_s - self._last_s >= self._interval_s

    def show(self, now_s: float, line: str, name: str = "") -> None:
        """Take the place of the one before.

        Args:
            now_s: of the clock.
            line: what it says.
            name: before it; shortened where a terminal has no room for both, since a line that
                wraps cannot be rewritten.
        """
        self._last_s = now_s
        self._shown = True
        if not self._terminal:
            print(_named(name, line), file=sys.stderr, flush=True)
            return
        room = _columns() - 1  # the last column may wrap
        name = cropped(name, room - cell_len(_named("-", line)) + 1)
        print(_ERASE + cropped(_named(name, line), room), end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take it away from a terminal; it may come again."""
        if self._shown and self._terminal:
            self._shown = False
            print(_ERASE, end="", file=sys.stderr, flush=True)


def _named(name: str, line: str) -> str:
    return f"{name}: {line}" if name else line


def cropped(text: str, room: int) -> str:
    """The beginning of a text that is too wide, with an ellipsis.

    Args:
        text: one line.
        room: columns; wide characters take two.
    """
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, room - 1) + _CUT if room > 0 else ""


def _on_terminal() -> bool:
    return sys.stderr.isatty()


def _columns() -> int:
    """Of the terminal that standard error is, whatever standard output is."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns
