"""When what a stream has was said: by the clock of the program, and by that on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypedDict

from whisper_hailo.core.types import SAMPLE_RATE_HZ


class Moment(TypedDict):
    """When an event is told: fields of all of `live.events`."""

    heard_s: float
    at_s: float
    wall_s: float


class StreamClock:
    """Knows when each sample of a stream was captured.

    Args:
        now: a clock in seconds that never runs backwards.
        wall: seconds since 1970.
    """

    def __init__(self, now: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._now = now
        self._wall = wall
        self._began_s = now()
        self._began_wall_s = wall()
        self._recorded = False
        self._captured_s: float | None = None  # when the stream's sample 0 would have been

    def note_capture(self, captured_s: float, n_samples: int) -> None:
        """So many samples of the stream had been captured at a time by `now`."""
        self._captured_s = captured_s - n_samples / SAMPLE_RATE_HZ

    def note_recorded(self, recorded_s: float, n_samples: int) -> None:
        """What follows so many samples of the stream was recorded then, in seconds since 1970."""
        self._began_wall_s = recorded_s - n_samples / SAMPLE_RATE_HZ
        self._recorded = True

    def moment(self, start_s: float, heard_s: float) -> Moment:
        """Now, for an event that begins at a place of a stream that has come so far."""
        at_s = self._now() - self._began_s
        return {"heard_s": heard_s, "at_s": at_s, "wall_s": self._wall_s(start_s)}

    def since(self, sample: int) -> float | None:
        """Seconds from the capture of a sample until now; `None` if the stream is not live."""
        if self._captured_s is None:
            return None
        return self._now() - (self._captured_s + sample / SAMPLE_RATE_HZ)

    def _wall_s(self, start_s: float) -> float:
        """Seconds since 1970 when a place of the stream was said.

        Where the stream is not live and no recording tells, it counts as said at its own speed,
        from when the clock began.
        """
        if self._captured_s is None or self._recorded:
            return self._began_wall_s + start_s
        return self._wall() - (self._now() - (self._captured_s + start_s))
