"""The encoder of the next windows runs while the decoder is busy with the last ones.

One batch ahead, so memory stays flat: handed to an encoder that works by itself, or in a thread.
Results, and errors, come when they are asked for, so in the order of the audio.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, NoReturn, TypeVar

from whisper_hailo.core.closing import Closing

InT = TypeVar("InT")
OutT = TypeVar("OutT")


class Prefetch(Closing, Generic[InT, OutT]):
    """Runs a function before its result is wanted.

    By thread, a call that is alone waits until its result is asked for or another one comes behind
    it: a recording of one window, or windows that wait for each other, need no thread.

    Args:
        function: what to run, one call after the other; beside it one that is `apart`.
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
        self._last: Begun[OutT] | None = None

    def begin(self, argument: InT, *, now: bool = False, apart: bool = False) -> Begun[OutT]:
        """Begin one call.

        Args:
            argument: of the function.
            now: by thread, it does not wait for another one.
            apart: by thread, it is no part of the row: it runs where its result is asked for,
                whatever the thread does meanwhile.
        """
        if self._start is not None:
            try:
                return Begun(self._start(argument))
            except Exception as error:
                return Begun(partial(_fail, error))
        call = Begun(partial(self._function, argument))
        if self._thread is None or apart:
            return call
        before, self._last = self._last, call
        if before is not None and not before.asked:
            before.run_in(self._thread)
            now = True
        if now:
            call.run_in(self._thread)
        return call

    def close(self) -> None:
        """Drop what has not begun and wait for what has: nothing is taken away under its feet."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


class Begun(Generic[OutT]):
    """A call that runs in a thread when it is told to, else when its result is asked for.

    Attributes:
        asked: its result was asked for.
        coming: what a thread makes of it, once it was told to.
    """

    def __init__(self, function: Callable[[], OutT]) -> None:
        self._function = function
        self.coming: Future[OutT] | None = None
        self.asked = False

    def run_in(self, thread: ThreadPoolExecutor) -> None:
        """Run it there, after what was begun before."""
        if self.coming is None:
            self.coming = thread.submit(self._function)

    def result(self) -> OutT:
        """Its result, or its error."""
        self.asked = True
        return self._function() if self.coming is None else self.coming.result()


def _fail(error: Exception) -> NoReturn:
    raise error
