"""Finds time that is missing in sound that comes at the speed of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MISSING_S: Final = 1.0
"""So much is missed where a program or a machine slept; less is jitter of the sound system."""

_FOLLOWS: Final = 0.01
"""The clock of a sound card runs a little faster or slower than that of the machine."""


@dataclass(slots=True)
class Lag:
    """How far sound lies behind the time that has passed.

    Attributes:
        heard_s: seconds of sound so far, those that were missing counted.
        usual_s: how far behind it is in general; slowly follows.
        last_s: when sound came last.
    """

    heard_s: float = 0.0
    usual_s: float | None = None
    last_s: float = 0.0

    def missing_s(self, length_s: float, now_s: float) -> float:
        """Seconds that are missing before a piece of sound that has just come; 0 for none.

        What was kept while nobody took it comes faster than time passes; it is waited for until
        that is over.

        Args:
            length_s: of the piece.
            now_s: by a clock that goes on while the machine sleeps.
        """
        since_s, self.last_s = now_s - self.last_s, now_s
        self.heard_s += length_s
        lag_s = now_s - self.heard_s
        if self.usual_s is None:
            self.usual_s = lag_s
        late_s = lag_s - self.usual_s
        if late_s < MISSING_S:
            self.usual_s += _FOLLOWS * late_s
            return 0.0
        if not 0.5 * length_s <= since_s <= MISSING_S:
            return 0.0
        self.heard_s += late_s
        return late_s
