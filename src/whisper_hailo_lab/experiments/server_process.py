"""A server of ours as a process, for measurements: its addresses, and what it holds."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from whisper_hailo.core.errors import ModelError
from whisper_hailo_lab.experiments.server_clients import RECORDING

_MIB: Final = 1 << 20
_EVERY_S: Final = 0.5
_DOORS: Final = {"http": "--http", "tcp": "--wyoming"}

Held = tuple[float, int]
"""Memory in MiB, and open descriptors."""


@contextmanager
def serving(threads: int, *words: str, door: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """A server's process, and the addresses of its doors.

    Args:
        threads: of the engine.
        words: more of the command.
        door: `http` or `tcp`, which is Wyoming; `None` is both, in this order.

    Raises:
        ModelError: it does not start.
    """
    command = [sys.executable, "-m", "whisper_hailo", "serve", "--model", "micro"]
    command += ["--threads", str(threads), *words]
    doors = [option for scheme, option in _DOORS.items() if door in (scheme, None)]
    for option in doors:
        command += [option, "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            addresses: list[str] = []
            for line in process.stderr or ():
                if found := re.search(r"serving at (\S+)", line):
                    addresses.append(found[1])
                if len(addresses) == len(doors):
                    break
            else:
                raise ModelError("the server did not start; run whisper-hailo serve by hand")
            reader = threading.Thread(target=(process.stderr or sys.stderr).read, daemon=True)
            reader.start()  # or the server would wait for one
            yield process.pid, addresses
            process.terminate()
            reader.join()
        finally:
            process.terminate()


def printed(threads: int) -> str:
    """What the command says of the recording."""
    command = [sys.executable, "-m", "whisper_hailo", "transcribe", "--model", "micro"]
    command += ["--threads", str(threads), "-l", "auto", str(RECORDING)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return " ".join(said.split())


def resources(process: int) -> Held:
    """Memory of a process in MiB, and how many descriptors it has."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    rss = re.search(r"VmRSS:\s+(\d+)", status)
    descriptors = len(list(Path(f"/proc/{process}/fd").iterdir()))
    return round(int(rss[1]) * 1024 / _MIB, 1) if rss else 0.0, descriptors


class ProcessWatch:
    """Looks every half second at what a process holds, as long as the block lasts."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._held: list[Held] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        self._held.append(resources(self._process))
        while not self._over.wait(_EVERY_S):
            self._held.append(resources(self._process))

    @property
    def peak_mib(self) -> float:
        """The most memory that was seen."""
        return max(mib for mib, _ in self._held)

    @property
    def thirds(self) -> tuple[Held, Held]:
        """Medians of the first and of the last third of the time: equal where nothing leaks."""
        n = max(1, len(self._held) // 3)
        first, last = (
            (
                statistics.median(mib for mib, _ in part),
                round(statistics.median(d for _, d in part)),
            )
            for part in (self._held[:n], self._held[-n:])
        )
        return first, last
