"""How long all recordings of one command will take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic


@dataclass(slots=True)
class _Item:
    """A recording.

    Attributes:
        n_bytes: 0 if unknown.
        duration_s: `None` until it is begun.
        known_s: what an earlier run had done of it.
    """

    suffix: str
    n_bytes: int
    duration_s: float | None = None
    known_s: float = 0.0
    done_s: float = 0.0
    is_over: bool = False


class Workload:
    """The recordings of one command, in order, and how much of them is done.

    A recording that has not begun is as long as its size says, by those of its format before it: to
    open all recordings of an archive would take longer than the first of them.

    Args:
        paths: of the recordings; `None` for standard input.
    """

    def __init__(self, paths: Sequence[Path | None]) -> None:
        self._items = [_make_item(path) for path in paths]
        self._index = 0
        self._begin_s = monotonic()
        self._reported_s = self._begin_s

    def begin(self, index: int) -> None:
        """Go on to a recording; those before it are over."""
        self._index = index
        for item in self._items[:index]:
            item.is_over = True

    @property
    def position(self) -> str:
        """Which recording it is, such as `3 of 7, `; empty if it is the only one."""
        n_items = len(self._items)
        return f"{self._index + 1} of {n_items}, " if n_items > 1 else ""

    def skip(self, known_s: float) -> None:
        """Exclude what an earlier run had done of the current recording from the speed."""
        self._items[self._index].known_s = known_s

    def report(self, done_s: float, duration_s: float | None, now_s: float) -> None:
        """Take the seconds done of the current recording, of how many if that is known."""
        self._reported_s = now_s
        item = self._items[self._index]
        item.done_s = done_s
        item.duration_s = duration_s

    def left_s(self, now_s: float) -> float | None:
        """Return the seconds that all recordings will take from now on.

        `None` if there is only one, or nothing is known yet.
        """
        worked_s = self._reported_s - self._begin_s
        heard_s = sum(max(0.0, item.done_s - item.known_s) for item in self._items)
        if len(self._items) == 1 or not heard_s:
            return None
        waiting_s = [self._waiting_s(item) for item in self._items if not item.is_over]
        left_s = sum(waiting_s) * worked_s / heard_s
        return max(0.0, left_s - (now_s - self._reported_s))

    def _waiting_s(self, item: _Item) -> float:
        """Return the audio of a recording that is not transcribed yet, in seconds."""
        if item.duration_s is not None:
            return max(0.0, item.duration_s - item.done_s)
        begun = [other for other in self._items if other.duration_s is not None]
        alike = [other for other in begun if other.suffix == item.suffix] or begun
        n_bytes = sum(other.n_bytes for other in alike)
        duration_s = sum(other.duration_s or 0.0 for other in alike)
        return item.n_bytes * duration_s / n_bytes if n_bytes else 0.0


def _make_item(path: Path | None) -> _Item:
    if path is None:
        return _Item("", 0)
    n_bytes = 0
    with suppress(OSError, ValueError):  # a missing file fails when its turn comes
        n_bytes = os.stat(path).st_size
    return _Item(path.suffix.lower(), n_bytes)
