"""Finds time that is missing in sound that comes at the speed of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MISSING_S: Final = 1.0
"""So much is missed where a program or a machine slept; less is jitter of the sound system."""

_FOLLOWS: Final = 0.01
"""The clock of a sound card runs a little faster or slower than that of the machine."""

_STEADY_S: Final = 2.0
_CAUGHT_UP_S: Final = 0.2
"""Sound that was kept meanwhile comes faster than time passes, so much in this time; what still is
missing then does not come any more."""


@dataclass(slots=True)
class ClockDrift:
    """How far sound lies behind the time that has passed.

    Attributes:
        heard_s: seconds of sound so far, those that were missing counted.
        usual_s: how far behind it is in general; slowly follows.
        since_s: when it was first seen that some is missing; `None`: none is.
        late_s: how much that was.
    """

    heard_s: float = 0.0
    usual_s: float | None = None
    since_s: float | None = None
    late_s: float = 0.0

    def missing_s(self, length_s: float, now_s: float) -> float:
        """Seconds that are missing before a piece of sound that has just come; 0 for none.

        It is told when it is clear that they do not come later, `_STEADY_S` behind the place.

        Args:
            length_s: of the piece.
            now_s: by a clock that goes on while the machine sleeps.
        """
        self.heard_s += length_s
        lag_s = now_s - self.heard_s
        if self.usual_s is None:
            self.usual_s = lag_s
        late_s = lag_s - self.usual_s
        if late_s < MISSING_S:
            self.usual_s += _FOLLOWS * late_s
            self.since_s = None
            return 0.0
        if self.since_s is None or late_s < self.late_s - _CAUGHT_UP_S:
            self.since_s, self.late_s = now_s, late_s
        if now_s - self.since_s < _STEADY_S:
            return 0.0
        self.since_s = None
        self.heard_s += late_s
        return late_s
