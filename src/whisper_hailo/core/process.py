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
"""Linux's name for vectors of float16 on ARM: from the Cortex-A55 and A76 (Raspberry Pi 5) on."""


@cache
def computes_in_half() -> bool:
    """Whether the runtime computes float16 as such here, twice as quickly as float32.

    ONNX Runtime has kernels for it on 64-bit ARM with Linux. Elsewhere it computes in float32, and
    what it converts back and forth takes longer than float32 from the start.
    """
    if (platform.system(), platform.machine()) != ("Linux", "aarch64"):
        return False
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(HALF_LANES in line.split() for line in lines if line.startswith("Features"))


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


MOST_THREADS: Final = 256


def checked_threads(threads: int) -> int:
    """Threads per operator.

    Raises:
        OptionError: no such number.
    """
    if not isinstance(threads, int) or not 0 <= threads <= MOST_THREADS:
        raise OptionError(f"threads is {threads!r}, expected 0 (automatic) to {MOST_THREADS}")
    return threads


_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Of `mallopt`, see its manual page."""

_LARGE_BYTES: Final = 128 << 10
"""What the C library begins with."""


def give_back_what_is_free() -> bool:
    """Have large blocks given back when they are freed, whatever was freed before.

    glibc takes a block that was freed for a sign that others as large will come, and from then on
    keeps up to twice its size, and the holes that smaller blocks leave in it. A model's file is
    enough of a sign: captions grew by 35 MiB in a quarter of an hour, as audio, mel and features
    lay between small things (docs/measurements/captions.md).

    Returns:
        whether the C library can be told so.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(what, _LARGE_BYTES) for what in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))


_IN_TIME: Final = 3.0
"""So often within the time after which the manager gives the program up."""


class Supervisor:
    """The service manager of the environment, if there is one."""

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
        """It does its work from now on."""
        self._tell("READY=1", "STATUS=" + " ".join(status.split()))

    def alive(self) -> None:
        """It is not stuck; called at each turn of the main loop, told as often as is needed."""
        if self._every_s is not None and self._now() - self._told_s >= self._every_s:
            self._told_s = self._now()
            self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        """It ends of its own accord: what follows is no failure."""
        self._tell("STOPPING=1")

    def _tell(self, *lines: str) -> None:
        """Send lines; a manager that does not listen is no reason to fail."""
        if not self._address.startswith(("/", "@")):
            return
        address = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                # One that has no time for it must not hold the program up.
                sending.sendto("\n".join(lines).encode(), socket.MSG_DONTWAIT, address)
        except OSError:
            return
