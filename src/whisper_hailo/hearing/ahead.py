"""The encoder of the next windows runs while the decoder is busy with the last ones.

One batch ahead, so memory stays flat: handed to an encoder that works by itself, or in a thread.
Results, and errors, come when they are asked for, so in the order of the audio.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, NoReturn, TypeVar

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import WhisperHailoError

InT = TypeVar("InT")
OutT = TypeVar("OutT")


class Ahead(Closing, Generic[InT, OutT]):
    """Runs a function before its result is wanted.

    Args:
        function: what to run, one call after the other.
        start: does the same without waiting for it, where that needs no thread; it gives back what
            waits.
        enabled: without it, each call runs when its result is asked for.
    """

    def __init__(
        self,
        function: Callable[[InT], OutT],
        start: Callable[[InT], Callable[[], OutT]] | None = None,
        *,
        enabled: bool = True,
    ) -> None:
        self._function = function
        self._start = start if enabled else None
        by_thread = enabled and start is None
        self._thread = ThreadPoolExecutor(1, "encode") if by_thread else None

    def begin(self, argument: InT) -> Callable[[], OutT]:
        """Begin one call; the function given back waits for its result, or raises its error."""
        if self._start is not None:
            try:
                return self._start(argument)
            except WhisperHailoError as error:
                return partial(_fail, error)
        if self._thread is None:
            return partial(self._function, argument)
        return self._thread.submit(self._function, argument).result

    def close(self) -> None:
        """Drop what has not begun and wait for what has: nothing is taken away under its feet."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)


def _fail(error: WhisperHailoError) -> NoReturn:
    raise error
