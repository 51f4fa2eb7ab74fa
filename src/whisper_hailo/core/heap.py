"""Memory that is free goes back to the system at once, in a program that runs for weeks."""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Of `mallopt`, see its manual page."""

_LARGE_BYTES: Final = 128 << 10
"""What the C library begins with."""


def give_back_what_is_free() -> bool:
    """Have large blocks given back when they are freed, whatever was freed before.

    glibc takes a block that was freed for a sign that others as large will come, and from then on
    keeps up to twice its size, and the holes that smaller blocks leave in it. A model's file is
    enough of a sign: captions grew by 35 MiB in a quarter of an hour, as audio, mel and features
    lay between small things (docs/measurements/captions.md).

    Returns:
        whether the C library can be told so.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(what, _LARGE_BYTES) for what in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))
