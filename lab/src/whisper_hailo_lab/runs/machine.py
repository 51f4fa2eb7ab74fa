"""This machine and the weights that were measured, as results name them."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from time import process_time
from typing import Final

_MIB: Final = 1024 * 1024
_HAILO_DEVICES: Final = ("/dev/hailo0", "/dev/h1x-0")


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware that decides how long things take.

    Attributes:
        cpu: model name as the kernel gives it.
        n_cpus: processors that this process may use.
        memory_gib: installed memory, rounded.
        architecture: such as `x86_64` or `aarch64`.
        board: model of a single-board computer, else empty.
        accelerator: Hailo device files found, else empty.
        system: operating system and kernel; not part of the identity.
    """

    cpu: str
    n_cpus: int
    memory_gib: int
    architecture: str
    board: str = ""
    accelerator: str = ""
    system: str = ""

    @property
    def id(self) -> str:
        """Short hash of the hardware; equal for runs that may be compared."""
        facts = asdict(self)
        facts.pop("system")
        return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        parts = [self.board, self.cpu, f"{self.n_cpus} CPUs", f"{self.memory_gib} GiB"]
        parts += [self.architecture, self.accelerator]
        return ", ".join(part for part in parts if part)


def this_machine() -> Machine:
    """Look at the hardware that this process runs on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=_cpu_name(),
        n_cpus=len(os.sched_getaffinity(0)),
        memory_gib=round(pages / (1024 * _MIB)),
        architecture=platform.machine(),
        board=_read("/proc/device-tree/model").strip("\0 \n"),
        accelerator=" ".join(path for path in _HAILO_DEVICES if Path(path).exists()),
        system=f"{platform.system()} {platform.release()}",
    )


def package_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of installed distributions and of Python; absent ones are left out."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def rss_mib() -> float:
    """Resident memory of this process in MiB, shared pages counted."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def peak_rss_mib() -> float:
    """Largest resident memory of this process so far, in MiB.

    Not `ru_maxrss`, which begins with what the parent held when it started this process.
    """
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def by_processor_time() -> Iterator[None]:
    """Stages are timed by this process's processor time, whatever else the machine does."""
    from unittest import mock

    with mock.patch("whisper_hailo.core.timing.perf_counter", process_time):
        yield


def cpu_s() -> float:
    """Processor seconds of all threads of this process so far: a proxy for energy."""
    return process_time()


def _cpu_name() -> str:
    fields = {
        key.strip().lower(): value.strip()
        for key, _, value in (line.partition(":") for line in _read("/proc/cpuinfo").splitlines())
    }
    for key in ("model name", "hardware", "cpu part"):
        if fields.get(key):
            return fields[key]
    return platform.processor() or "unknown CPU"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


LENGTH: Final = 12
OTHER: Final = "; other weights than the present ones"


def mark_of(model: Path) -> str:
    """Mark of the weights in a checkpoint's folder: of one file, how its SHA-256 begins."""
    found = hashlib.sha256()
    for path in sorted(model.glob("*.safetensors")):
        found.update(path.read_bytes())
    return found.hexdigest()[:LENGTH]


def safetensors(hashes: dict[str, str]) -> set[str]:
    """Of hashes by file name, those that a mark can be compared with: what rivals load is left."""
    return {value for name, value in hashes.items() if name.endswith(".safetensors")}


def remark(measured: Iterable[str], present: str) -> str:
    """What the line above a table adds when its result is not of the present weights.

    Args:
        measured: marks or whole hashes of what was measured; none, or an empty one, is a result
            that did not record its weights, and counts as of others.
        present: mark of the present weights.

    Returns:
        `OTHER`, or nothing when all that was measured is of the present weights.
    """
    return "" if {value[:LENGTH] for value in measured} == {present} else OTHER
