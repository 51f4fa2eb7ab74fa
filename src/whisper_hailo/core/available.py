"""How much memory programs may still take."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MEMINFO: Final = Path("/proc/meminfo")
_LINE: Final = "MemAvailable:"


def available_bytes() -> int | None:
    """What the system could give without swapping; `None` where it does not say."""
    try:
        lines = MEMINFO.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith(_LINE)), [])
    return int(found[1]) * 1024 if len(found) > 1 and found[1].isdigit() else None
