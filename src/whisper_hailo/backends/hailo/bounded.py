"""Calls into a driver that may never return, given a real end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from whisper_hailo.core.errors import DeviceTimeoutError

T = TypeVar("T")


_GIVEN_UP: Final[dict[object, str]] = {}
"""Calls that nobody waits for any more and that have not come back, with what they do."""


def given_up() -> list[str]:
    """What calls are doing that were given up and still hang in the driver."""
    return list(_GIVEN_UP.values())


class _Call(Generic[T]):
    """One call in a thread of its own."""

    def __init__(
        self,
        function: Callable[[], T],
        what: str,
        undo: Callable[[T], object] | None,
        over: Callable[[], object] | None,
    ) -> None:
        self._function = function
        self._what = what
        self._undo = undo
        self._over = over
        self._lock = threading.Lock()
        self._abandoned = self._ended = False
        self.results: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """The thread's body."""
        try:
            self._call()
        finally:
            with self._lock:
                self._ended = True
                _GIVEN_UP.pop(self, None)
            if self._over is not None:
                self._over()

    def _call(self) -> None:
        """A result that nobody waits for any more is undone."""
        try:
            result = self._function()
        except BaseException as error:  # it belongs to the caller, whatever it is
            self.error = error
            return
        with self._lock:
            if not self._abandoned:
                self.results.append(result)
                return
        if self._undo is not None:
            self._undo(result)

    def abandon(self) -> bool:
        """Wait no longer; `False` if the result came at the last moment."""
        with self._lock:
            self._abandoned = not self.results
            if not self._ended:
                _GIVEN_UP[self] = self._what
            return self._abandoned


def bounded(
    function: Callable[[], T],
    timeout_s: float,
    what: str,
    undo: Callable[[T], object] | None = None,
    over: Callable[[], object] | None = None,
) -> T:
    """Call a function and wait for it, but not for ever.

    Signals are handled while waiting. After the time-out the thread is left behind: nothing can
    end a call that hangs in a driver.

    Args:
        function: what to call.
        timeout_s: how long to wait.
        what: what it does, such as `opening the chip`.
        undo: what to do with a result that comes too late.
        over: called when the function has really ended, in time or not, and after `undo`.

    Raises:
        DeviceTimeoutError: it did not return in time.
        Exception: whatever it raised.
    """
    call = _Call(function, what, undo, over)
    thread = threading.Thread(target=call.run, name=f"hailo: {what}", daemon=True)
    thread.start()
    try:
        thread.join(timeout_s)
    except BaseException:  # an interrupt: whoever waits leaves, and so does the result
        call.abandon()
        raise
    if thread.is_alive() and call.abandon():
        raise DeviceTimeoutError(
            f"{what} did not end within {timeout_s:g} s; the chip or its driver hangs: reload the "
            "driver or reboot, and look at `dmesg | grep -i hailo`"
        )
    if call.error is not None:
        raise call.error
    return call.results[0]
