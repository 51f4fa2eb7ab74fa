"""What the processor of this machine computes in."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Final

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
