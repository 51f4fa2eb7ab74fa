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
"""Environment variables that turn telemetry off. ONNX Runtime (1.29 and later) stores a device id
and a list of events at import, and sends them to its maker. The hub's client and its `hf_xet` tell
the hub about each fetch. Ray tells its maker about each cluster."""


def keep_private() -> None:
    """Turn telemetry off for this process and its children, unless the user has set it.

    What ONNX Runtime gathered if it was imported before will still be sent.
    """
    chosen = bool(os.environ.get(RUNTIME_SWITCH))
    for switch, off in SWITCHES.items():
        if not os.environ.get(switch):
            os.environ[switch] = off
    disable = getattr(sys.modules.get("onnxruntime"), "disable_telemetry_events", None)
    if disable is not None and not chosen:
        disable()
        import logging  # here, since every start of the program comes by

        logging.getLogger(__name__).warning(
            "onnxruntime was imported before whisper_hailo and reports its start to its maker; "
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
"""The clone; some other folder for an installed package."""


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


def require_extra(extra: Extra, what: str, *modules: str) -> None:
    """Refuse to start without the modules of an extra."""
    for module in modules:
        if find_spec(module) is None:
            name = module.replace("_", "-")
            raise OptionError(
                f"{what} needs {name}, which is not installed: {install_command(extra)}"
            )


CPUINFO: Final = Path("/proc/cpuinfo")


@cache
def has_float16_kernels() -> bool:
    """Return whether ONNX Runtime has float16 kernels here, twice as fast as float32.

    Elsewhere than on 64-bit ARM with Linux it computes in float32, and converting costs more.
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
    lines = (line for line in text.splitlines() if line.startswith(("flags", "Features")))
    return {flag for line in lines for flag in line.partition(":")[2].split()}


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


MOST_THREADS: Final = 256


def check_threads(threads: int) -> int:
    """Return a number of threads, or refuse it."""
    if not isinstance(threads, int) or not 0 <= threads <= MOST_THREADS:
        raise OptionError(f"threads is {threads!r}, expected 0 (automatic) to {MOST_THREADS}")
    return threads


def release_freed_memory() -> bool:
    """Have large blocks returned to the system when freed; return if the C library can do that.

    After a large block is freed, glibc keeps up to twice its size, and the holes that smaller
    blocks leave in it. Captions grew by 35 MiB in a quarter of an hour that way
    (docs/measurements/captions.md).
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    trim_threshold, mmap_threshold, initial_bytes = -1, -3, 128 << 10  # see mallopt(3)
    return all(mallopt(which, initial_bytes) for which in (trim_threshold, mmap_threshold))


class Supervisor:
    """Notifies the service manager of the environment, if there is one.

    Its watchdog is fed three times per period. The protocol is that of `sd_notify(3)`:
    datagrams of `NAME=value` lines to `NOTIFY_SOCKET`.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environment.get("WATCHDOG_USEC", "")
        self._every_s = int(usec) / 3e6 if watched and usec.isdecimal() else None
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
        self._tell("STOPPING=1")

    def _tell(self, *lines: str) -> None:
        """Send lines; a manager that does not listen is ignored."""
        if not self._address.startswith(("/", "@")):
            return
        address = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
        import socket

        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                # One that has no time for it must not hold the program up.
                sending.sendto("\n".join(lines).encode(), socket.MSG_DONTWAIT, address)
        except OSError:
            return
