"""The encoder of the next windows runs while the decoder is busy with the last ones.

One thread and one batch ahead: encoder and decoder are different machines, or different cores, and
memory stays flat. Results, and errors, come when they are asked for, so in the order of the audio.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from whisper_hailo.core.closing import Closing

InT = TypeVar("InT")
OutT = TypeVar("OutT")


class Ahead(Closing, Generic[InT, OutT]):
    """Runs a function before its result is wanted.

    Args:
        function: what to run, one call after the other.
        enabled: without it, each call runs when its result is asked for.
    """

    def __init__(self, function: Callable[[InT], OutT], *, enabled: bool = True) -> None:
        self._function = function
        self._thread = ThreadPoolExecutor(1, "encode") if enabled else None

    def begin(self, argument: InT) -> Callable[[], OutT]:
        """Begin one call; the function given back waits for its result, or raises its error."""
        if self._thread is None:
            return partial(self._function, argument)
        return self._thread.submit(self._function, argument).result

    def close(self) -> None:
        """Drop what has not begun and wait for what has: nothing is taken away under its feet."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
