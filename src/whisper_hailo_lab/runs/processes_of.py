"""Processes that another one started, and those that these did."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OURS: Final = "multiprocessing.spawn"
"""Stands in the command line of each worker and reader, and in that of no process of Ray's."""


def peaks_mib(pid: int) -> dict[int, float]:
    """The most memory that each of a command's processes has had so far, in MiB.

    Args:
        pid: of the command; it counts where it has no workers.
    """
    own = list(_descendants(pid))
    workers = [one for one in own if _OURS in _read(one, "cmdline").replace("\0", " ")]
    return {one: peak for one in workers or [pid] if (peak := _peak_mib(one))}


def cpu_s(pid: int) -> dict[int, float]:
    """Seconds of the processor that a command and each of its processes took so far."""
    return {one: _cpu_s(one) for one in (pid, *_descendants(pid))}


def _descendants(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has ended meanwhile
        return
    for thread in threads:
        for child in _read(pid, f"task/{thread}/children").split():
            yield int(child)
            yield from _descendants(int(child))


def _peak_mib(pid: int) -> float:
    lines = dict(line.partition(":")[::2] for line in _read(pid, "status").splitlines())
    return int(lines.get("VmHWM", "0").split()[0]) / 1024


def _cpu_s(pid: int) -> float:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _read(pid: int, name: str) -> str:
    """A file of `/proc`; nothing of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
