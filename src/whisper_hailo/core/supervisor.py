"""Tells a service manager how the program does: systemd's notifications, without its library.

The protocol is that of `sd_notify(3)`: datagrams of `NAME=value` lines to the socket that
`NOTIFY_SOCKET` names.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

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
