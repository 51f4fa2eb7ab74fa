"""The counter of executed instructions that the emulator keeps (count_instructions.c)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path


def counter(path: Path | None) -> Callable[[], int]:
    """Instructions executed so far; always 0 where nobody counts."""
    if path is None:
        return lambda: 0
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    return lambda: int(struct.unpack("<Q", shared[:8])[0])
