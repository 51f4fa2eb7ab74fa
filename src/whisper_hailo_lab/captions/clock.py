"""A clock that stands for a free core, so that an hour in real time takes what computing takes."""

from __future__ import annotations

import threading
import time
from typing import Final

_LOOK_S: Final = 0.05
_CATCH_UP_S: Final = 0.02


class FreeCore:
    """Time as it would pass on a core that does nothing but this.

    While the captioner computes it runs with the processor time of its thread, which other work on
    the machine does not lengthen; while it waits for audio the clock is set forward to the next
    piece. So a stream is played at the speed of speech by this clock, with the same partials due at
    the same audio, whatever else the machine does, and nobody waits for silence to pass.

    Made by the captioner's thread; `sleep` and `played` belong to the source's.
    """

    def __init__(self) -> None:
        self._processor = time.pthread_getcpuclockid(threading.get_ident())
        self._ahead_s = 0.0
        self._n_unheard = 0
        self._changed = threading.Condition()

    def now(self) -> float:
        return self._ahead_s + time.clock_gettime(self._processor)

    def played(self, n_samples: int) -> None:
        """The source is about to give a piece."""
        with self._changed:
            self._n_unheard += n_samples

    def heard(self, n_samples: int) -> None:
        """The captioner is done with so much, the texts made of it included."""
        with self._changed:
            self._n_unheard -= n_samples
            self._changed.notify()

    def sleep(self, seconds: float) -> None:
        """Wait by this clock, until it is time for the next piece."""
        end_s = self.now() + seconds
        with self._changed:
            while (left_s := end_s - self.now()) > 0:
                if self._n_unheard == 0:
                    self._ahead_s += left_s
                else:
                    self._changed.wait(min(left_s, _LOOK_S))

    def stall(self, seconds: float) -> None:
        """The captioner's thread waits for something that is not computed, while people speak."""
        with self._changed:
            self._ahead_s += seconds
            self._changed.notify()
        time.sleep(_CATCH_UP_S)  # for the source to play what was said meanwhile
