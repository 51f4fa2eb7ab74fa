"""Ends what takes for ever: one thread looks now and then at what is running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Final

LIMIT_S: Final = 900.0
"""No pass of a Whisper takes as long on any machine that can hold it: large-v3's encoder needs some
minutes on the slowest."""
LOOK_S: Final = 5.0


class Watch:
    """Stops what runs for longer than a limit.

    Args:
        limit_s: after which something is stopped.
        look_s: between two looks.
    """

    def __init__(self, limit_s: float = LIMIT_S, look_s: float = LOOK_S) -> None:
        self.limit_s = limit_s
        self._look_s = look_s
        self._numbers = count()
        self.waiting: dict[int, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def begin(self, stop: Callable[[], None]) -> int:
        """Note that something runs; `stop` is called from another thread if it does for too long.

        Returns:
            its number, for `end`.
        """
        if self._thread is None:
            self._start()
        number = next(self._numbers)
        self.waiting[number] = (time.monotonic() + self.limit_s, stop)
        return number

    def end(self, number: int) -> bool:
        """Note that something has ended, by itself or not.

        Returns:
            whether it was stopped.
        """
        return self.waiting.pop(number, None) is None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        while True:
            time.sleep(self._look_s)
            now = time.monotonic()
            for number, (deadline, stop) in list(self.waiting.items()):
                if now > deadline and self.waiting.pop(number, None) is not None:
                    stop()


WATCH: Final = Watch()
"""Of this process."""
