"""This process: its cores, threads and heap, and what it tells a service manager."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError

CPUINFO: Final = Path("/proc/cpuinfo")
HALF_LANES: Final = "asimdhp"
"""Linux's name for float16 vectors on ARM: Cortex-A55 and A76 (Raspberry Pi 5) and later."""


@cache
def computes_in_half() -> bool:
    """Return whether ONNX Runtime has float16 kernels here, twice as fast as float32.

    It has them on 64-bit ARM with Linux. Elsewhere it computes in float32, and converting costs
    more than that.
    """
    if (platform.system(), platform.machine()) != ("Linux", "aarch64"):
        return False
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(HALF_LANES in line.split() for line in lines if line.startswith("Features"))


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


MOST_THREADS: Final = 256


def checked_threads(threads: int) -> int:
    """Return a number of threads, or refuse it."""
    if not isinstance(threads, int) or not 0 <= threads <= MOST_THREADS:
        raise OptionError(f"threads is {threads!r}, expected 0 (automatic) to {MOST_THREADS}")
    return threads


_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""See `mallopt(3)`."""

_LARGE_BYTES: Final = 128 << 10
"""The C library's initial threshold."""


def give_back_what_is_free() -> bool:
    """Have large blocks returned to the system when they are freed.

    After a large block is freed, glibc keeps up to twice its size, and the holes that smaller
    blocks leave in it. Captions grew by 35 MiB in a quarter of an hour that way
    (docs/measurements/captions.md).

    Returns:
        whether the C library supports it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(what, _LARGE_BYTES) for what in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))


_IN_TIME: Final = 3.0
"""Notifications per watchdog period."""


class Supervisor:
    """Notifies the service manager of the environment, if there is one.

    The protocol is that of `sd_notify(3)`: datagrams of `NAME=value` lines to `NOTIFY_SOCKET`.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environment.get("WATCHDOG_USEC", "")
        self._every_s = int(usec) / 1e6 / _IN_TIME if watched and usec.isdecimal() else None
        self._now = now
        self._told_s = float("-inf")

    def ready(self, status: str) -> None:
        """Report that the service has started."""
        self._tell("READY=1", "STATUS=" + " ".join(status.split()))

    def alive(self) -> None:
        """Feed the watchdog; called at each turn of the main loop, sent as often as needed."""
        if self._every_s is not None and self._now() - self._told_s >= self._every_s:
            self._told_s = self._now()
            self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        """Report a regular stop."""
        self._tell("STOPPING=1")

    def _tell(self, *lines: str) -> None:
        """Send lines; a manager that does not listen is ignored."""
        if not self._address.startswith(("/", "@")):
            return
        address = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                # One that has no time for it must not hold the program up.
                sending.sendto("\n".join(lines).encode(), socket.MSG_DONTWAIT, address)
        except OSError:
            return
