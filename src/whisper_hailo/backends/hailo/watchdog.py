"""A watchdog for calls into Hailo's library, which may never return.

Nearly all of them hold Python's lock (only handing a run over and waiting for it do not): no thread
of ours can look at a clock meanwhile. So the C library ends the program, by timers of its own.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from whisper_hailo.backends.hailo.last_words import LIBC, LastWords
from whisper_hailo.core.errors import ExitCode

ANSWER_S: Final = 10.0
"""Limit of calls that a healthy chip answers within milliseconds."""

_DELIVERY_S: Final = 10.0
"""Longest wait for standard error to take the message; it may be a pipe without a reader."""

_NEW_THREAD: Final = 2
"""`SIGEV_THREAD`: a timer calls a function in a thread of the C library's."""

TIMERS: Final = LIBC if hasattr(LIBC, "timer_create") else ctypes.CDLL("librt.so.1")
"""Until glibc 2.34 they have a library of their own."""


def hangs(action: str, timeout_s: float) -> str:
    """Return the message about a call that does not come back."""
    return (
        f"{action} did not end within {timeout_s:g} s; the chip or its driver hangs: reload the "
        "driver or reboot, and look at `dmesg | grep -i hailo`"
    )


@contextmanager
def bounded(timeout_s: float, action: str) -> Iterator[None]:
    """Run the block, or end the program when it does not end in time.

    The end is a message on standard error and exit code 6, without unwinding, which a call that
    hangs does not allow. Ctrl-C, SIGTERM and SIGHUP are handled when the call ends.
    """
    line = " ".join(hangs(action, timeout_s).split())
    words = LastWords(line)
    with (
        start_timer(timeout_s, LIBC.setcontext, words.address),
        start_timer(timeout_s + _DELIVERY_S, LIBC._exit, ExitCode.DEVICE),
    ):
        until_s = time.monotonic() + timeout_s
        try:
            yield
        finally:
            # The message is out: the program ends, even if the call returned after all.
            if time.monotonic() >= until_s:
                _await_the_end()


def _await_the_end() -> None:
    """Sleep until a timer ends the program, as late as the last one may."""
    time.sleep(2 * _DELIVERY_S)


class _Event(ctypes.Structure):
    """`struct sigevent` of 64-bit Linux."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("rest", ctypes.c_char * 40),
    )


@contextmanager
def start_timer(after_s: float, function: object, argument: int) -> Iterator[None]:
    """Call a function of the C library after a time, unless the block ends before."""
    address = ctypes.cast(function, ctypes.c_void_p)  # type: ignore[arg-type]
    event = _Event(value=argument, notify=_NEW_THREAD, function=address)
    timer = ctypes.c_void_p()
    if TIMERS.timer_create(
        time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)
    ):
        raise OSError("cannot create a timer")
    # `struct itimerspec`: no interval, then whole seconds and nanoseconds.
    times = (ctypes.c_long * 4)(0, 0, int(after_s), int(after_s % 1 * 1e9))
    TIMERS.timer_settime(timer, 0, times, None)
    try:
        yield
    finally:
        TIMERS.timer_delete(timer)
