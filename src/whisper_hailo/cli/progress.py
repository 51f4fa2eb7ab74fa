"""Progress of long work on standard error."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Self

from whisper_hailo.cli.messages import is_quiet
from whisper_hailo.cli.workload import Workload
from whisper_hailo.core.protocols import Closing

_ERASE: Final = "\r\x1b[K"
_TERMINAL_INTERVAL_S: Final = 0.2
LOG_INTERVAL_S: Final = 15.0

MIN_DURATION_S: Final = 60.0
"""Shorter recordings are done before anyone wonders."""

_MIN_ELAPSED_S: Final = 0.2
"""Less time than this says nothing about the speed."""

_FIRST_SIGN_S: Final = 2.0
"""When a terminal shows that work goes on, whether or not a window is done by then."""

_TICK_S: Final = 1.0


class StatusLine:
    """A line that is rewritten on a terminal, and printed now and then elsewhere.

    It may be written on several threads; `hidden` keeps it away while other text is printed.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._terminal = is_terminal()
        self._interval_s = _TERMINAL_INTERVAL_S if self._terminal else LOG_INTERVAL_S
        self._begin_s = monotonic()
        self._last_s = self._begin_s
        self._is_shown = False

    def update(self, line: str, name: str = "") -> None:
        """Replace the line if it is old enough; a terminal erases one row, so the name is cut."""
        now_s = monotonic()
        with self._lock:
            if is_quiet() or now_s - self._last_s < self._interval_s:
                return
            self._last_s = now_s
            self._is_shown = True
            if not self._terminal:
                print(_join_name(name, line), file=sys.stderr, flush=True)
                return
            from rich.cells import cell_len  # here, since short recordings show no line

            room = terminal_width() - 1  # the last column may wrap
            name = crop_text(name, room - cell_len(f": {line}"))
            text = crop_text(_join_name(name, line), room)
            print(_ERASE + text, end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Erase the line on a terminal, so that other text may be printed there."""
        with self._lock:
            if self._is_shown and self._terminal:
                self._is_shown = False
                print(_ERASE, end="", file=sys.stderr, flush=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the line on a terminal, and keep it away within the block."""
        with self._lock:
            StatusLine.close(self)
            yield


def _join_name(name: str, line: str) -> str:
    return f"{name}: {line}" if name else line


def crop_text(text: str, room: int) -> str:
    """Shorten a text to `room` columns, with an ellipsis."""
    from rich.cells import cell_len, set_cell_size

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


class Ticker(Closing):
    """Calls a function every second on a thread of its own while it is open."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_TICK_S):
            self._function()


class Progress(StatusLine, Closing):
    """Progress, speed and remaining time of one input.

    While it is open a terminal shows that work goes on, even before the first window is done.

    Args:
        name: of the input.
        workload: all inputs of the command, of which this is the current one.
    """

    def __init__(self, name: str, workload: Workload | None = None) -> None:
        super().__init__()
        self._name = name
        self._workload = workload or Workload([None])
        self._known_s = 0.0
        self._done_s = 0.0
        self._duration_s: float | None = None
        self._is_finding_speakers = False
        self._opened_s = self._begin_s
        self._reported_s = self._begin_s
        self._ticker: Ticker | None = None

    def open(self) -> Self:
        """Show signs of life on a terminal from now on."""
        if self._terminal and not is_quiet():
            self._ticker = Ticker(self._tick).open()
        return self

    def close(self) -> None:
        """Stop, and erase the line."""
        if self._ticker is not None:
            self._ticker.close()
            self._ticker = None
        super().close()

    def skip(self, known_s: float) -> None:
        """Exclude audio of an earlier run from the speed."""
        self._known_s = known_s
        self._workload.skip(known_s)

    def find_speakers(self, done_s: float, duration_s: float | None) -> None:
        """Report the seconds in which speakers were looked for, which only a terminal shows.

        They are found once as many are done as there are; the speed is that of the text alone.
        """
        with self._lock:
            self._is_finding_speakers = duration_s is None or done_s < duration_s
            self._done_s = done_s if self._is_finding_speakers else 0.0
            self._duration_s = duration_s
            self._opened_s = monotonic()
            self._begin_s = self._opened_s

    def __call__(self, done_s: float, duration_s: float | None) -> None:
        """Report the seconds done, of how many if that is known."""
        now_s = monotonic()
        with self._lock:
            if done_s <= self._known_s:
                self._begin_s = now_s  # windows of an earlier run pass at once
            self._done_s = done_s
            self._duration_s = duration_s
            self._reported_s = now_s
            self._workload.report(done_s, duration_s, now_s)
        if (duration_s or done_s) >= MIN_DURATION_S:
            self._show()

    def _tick(self) -> None:
        """Show the line again, whatever is done."""
        if monotonic() - self._opened_s >= _FIRST_SIGN_S:
            self._show()

    def _show(self) -> None:
        with self._lock:
            position = self._workload.position if self._terminal else ""
            self.update(self._describe(), position + self._name)

    def _describe(self) -> str:
        """Return how far the work is."""
        now_s = monotonic()
        if self._is_finding_speakers:
            return f"finding the speakers, {clock(self._done_s)}"
        if not self._done_s:
            return f"transcribing, {clock(now_s - self._opened_s)} so far"
        elapsed_s = max(self._reported_s - self._begin_s, _MIN_ELAPSED_S)
        speed = max(0.0, self._done_s - self._known_s) / elapsed_s
        line = f"{self._describe_position()}, {speed:.1f} x real time"
        left_s = self._workload.left_s(now_s) if self._terminal else None
        if left_s is not None:
            return f"{line}, about {clock(left_s)} left for all"
        if self._duration_s is not None and speed:
            remaining_s = max(0.0, self._duration_s - self._done_s) / speed
            remaining_s -= now_s - self._reported_s
            line += f", {clock(max(0.0, remaining_s))} left"
        return line

    def _describe_position(self) -> str:
        if self._duration_s is None:
            return clock(self._done_s)
        return f"{clock(self._done_s)} of {clock(self._duration_s)}"


def clock(seconds: float) -> str:
    """Format seconds as `h:mm:ss`, or `m:ss` below an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
