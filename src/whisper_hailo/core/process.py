"""This process: telemetry, extras, cores, threads and heap, and its service manager."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, TypeAlias

from whisper_hailo.core.errors import OptionError

RUNTIME_SWITCH: Final = "ORT_DISABLE_TELEMETRY"
SWITCHES: Final = {
    RUNTIME_SWITCH: "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Environment variables that turn telemetry off.

ONNX Runtime (1.29 and later) stores a device id and a list of events at import, and sends them to
its maker. The hub's client and its `hf_xet` report each download to the hub, Ray reports each
cluster to its maker.
"""


def keep_private() -> None:
    """Turn telemetry off for this process and its children, unless the user has set it.

    What ONNX Runtime gathered if it was imported before will still be sent.
    """
    is_chosen = bool(os.environ.get(RUNTIME_SWITCH))
    for switch, off in SWITCHES.items():
        if not os.environ.get(switch):
            os.environ[switch] = off
    disable = getattr(sys.modules.get("onnxruntime"), "disable_telemetry_events", None)
    if disable is not None and not is_chosen:
        disable()
        import logging  # here, since every start of the program runs this function

        logging.getLogger(__name__).warning(
            "onnxruntime was imported before whisper_hailo, so its telemetry is on; "
            "import whisper_hailo first, or set %s=1",
            RUNTIME_SWITCH,
        )


Extra: TypeAlias = Literal[
    "media",
    "live",
    "web",
    "server",
    "moonshine",
    "cluster",
]


REPOSITORY_ROOT: Final = Path(__file__).resolve().parents[3]
"""The clone; for an installed package it is some other folder."""


def install_command(extra: Extra) -> str:
    """Return the command that installs an extra; the clone has lock files with hashes."""
    if (REPOSITORY_ROOT / "requirements" / f"{extra}.txt").is_file():
        return f"pip install -r requirements/{extra}.txt in the clone"
    return f"pip install 'whisper-hailo[{extra}]'"


def package_to_add(folder: str) -> str:
    """Return the command that installs another distribution, by its folder in the repository."""
    if (REPOSITORY_ROOT / folder / "pyproject.toml").is_file():
        return "pip install --no-deps -e tools -e lab in the clone"
    return f"pip install whisper-hailo-{folder}"


def require_extra(extra: Extra, feature: str, *modules: str) -> None:
    """Refuse to start a feature without the modules of an extra.

    Raises:
        OptionError: a module is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            name = module.replace("_", "-")
            raise OptionError(
                f"{feature} needs {name}, which is not installed: {install_command(extra)}"
            )


CPUINFO: Final = Path("/proc/cpuinfo")


@cache
def has_float16_kernels() -> bool:
    """Return whether ONNX Runtime has float16 kernels here, twice as fast as float32.

    It has them on 64-bit ARM with Linux; elsewhere it converts to float32, which costs more than
    it saves.
    """
    import platform

    if (platform.system(), platform.machine()) != ("Linux", "aarch64"):
        return False
    return "asimdhp" in read_cpu_flags()  # Cortex-A55, A76 (Raspberry Pi 5) and later


def read_cpu_flags() -> set[str]:
    """Return the features that the system lists for its processor."""
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    flags: set[str] = set()
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name.startswith(("flags", "Features")):  # x86, ARM
            flags.update(values.split())
    return flags


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


MOST_THREADS: Final = 256


def check_threads(threads: int) -> int:
    """Return a number of threads, or raise `OptionError`."""
    if not isinstance(threads, int) or not 0 <= threads <= MOST_THREADS:
        raise OptionError(
            f"threads is {threads!r}, expected 0 (automatic) to {MOST_THREADS}"
        )
    return threads


_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Parameters of glibc's heap, see mallopt(3)."""

_INITIAL_THRESHOLD_BYTES: Final = 128 << 10
"""glibc's own default; setting it keeps glibc from raising it."""


def release_freed_memory() -> bool:
    """Return large blocks to the system when freed; return whether the C library can do that.

    After a large block is freed, glibc raises its thresholds: it keeps up to twice the size, and
    the holes that smaller blocks leave in it. Captions grew by 35 MiB in a quarter of an hour that
    way (docs/measurements/captions.md).
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    parameters = (_TRIM_THRESHOLD, _MMAP_THRESHOLD)
    return all(mallopt(parameter, _INITIAL_THRESHOLD_BYTES) for parameter in parameters)


class Supervisor:
    """Notifies the service manager that started this process, if one did.

    Its watchdog is fed three times per period. The protocol is that of `sd_notify(3)`: datagrams of
    `NAME=value` lines to `NOTIFY_SOCKET`.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        own_pid = str(os.getpid())
        is_watched = environment.get("WATCHDOG_PID", own_pid) == own_pid
        period_us = environment.get("WATCHDOG_USEC", "")
        self._interval_s: float | None = None
        if is_watched and period_us.isdecimal():
            self._interval_s = int(period_us) / 3e6
        self._now = now
        self._fed_s = float("-inf")

    def ready(self, status: str) -> None:
        """Report that the service has started."""
        self._notify("READY=1", "STATUS=" + " ".join(status.split()))

    def alive(self) -> None:
        """Feed the watchdog if it is time; called at each turn of the main loop."""
        if self._interval_s is None:
            return
        now_s = self._now()
        if now_s - self._fed_s >= self._interval_s:
            self._fed_s = now_s
            self._notify("WATCHDOG=1")

    def stopping(self) -> None:
        """Report that the service is about to end."""
        self._notify("STOPPING=1")

    def _notify(self, *lines: str) -> None:
        """Send lines; a manager that does not listen is ignored."""
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]  # Linux's abstract sockets
        elif not address.startswith("/"):
            return
        import socket

        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
        try:
            with socket.socket(socket.AF_UNIX, kind) as sender:
                # A manager that is too busy must not hold the program up.
                sender.sendto("\n".join(lines).encode(), socket.MSG_DONTWAIT, address)
        except OSError:
            return
