"""This machine, its memory and its processor time."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
from collections.abc import Set
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from time import process_time
from typing import Final

from whisper_hailo.backends.session import saturates
from whisper_hailo.core.process import read_cpu_flags

_MIB: Final = 1024 * 1024
_HAILO_DEVICES: Final = ("/dev/hailo0", "/dev/h1x-0")
_NAMES: Final = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx_vnni": "VNNI",
    "avx512_vnni": "VNNI",
    "asimd": "NEON",
    "asimddp": "dot products",
    "asimdhp": "float16",
    "i8mm": "int8 matrices",
}
"""Linux's flags of processors, and how their vendors call them."""
_VNNI: Final = "VNNI"
HIDDEN: Final = "newer ones hidden (emulated)"
"""Follows the instruction sets of a processor that is made to look like an older one."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware that times depend on.

    Attributes:
        cpu: model name from the kernel.
        n_cpus: processors that this process may use.
        memory_gib: installed memory, rounded.
        architecture: such as `x86_64` or `aarch64`.
        board: model of a single-board computer, else empty.
        accelerator: Hailo device files, else empty.
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
        text = repr(sorted(facts.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        parts = [self.board, self.cpu, f"{self.n_cpus} CPUs", f"{self.memory_gib} GiB"]
        parts += [self.architecture, self.accelerator]
        return ", ".join(part for part in parts if part)


def this_machine() -> Machine:
    """Return the hardware that this process runs on."""
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
    """Return versions of Python and of installed distributions, without the missing ones."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def rss_mib() -> float:
    """Return resident memory of this process in MiB, shared pages included."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def peak_rss_mib() -> float:
    """Return the largest resident memory of this process so far, in MiB.

    It is not `ru_maxrss`, which begins with the memory of the parent at the fork.
    """
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_s() -> float:
    """Return processor seconds of all threads of this process so far, a proxy for energy."""
    return process_time()


def _cpu_name() -> str:
    fields = {}
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        fields[key.strip().lower()] = value.strip()
    for key in ("model name", "hardware", "cpu part"):
        if fields.get(key):
            return fields[key]
    return platform.processor() or "unknown CPU"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def instruction_sets() -> tuple[str, ...]:
    """Return the instruction sets that ONNX Runtime finds here."""
    return usable_instruction_sets(read_cpu_flags(), is_saturating=saturates())


def usable_instruction_sets(flags: Set[str], *, is_saturating: bool) -> tuple[str, ...]:
    """Return the names of those flags, as far as the runtime uses them.

    The system's flags alone may mislead: the lanes for older processors hide instructions from
    the runtime, and from nothing else. Its 8-bit sums are cut off where it does not use VNNI.
    """
    names = dict.fromkeys(name for flag, name in _NAMES.items() if flag in flags)
    if _VNNI in names and is_saturating:
        return ("AVX2", HIDDEN)
    return tuple(names)
