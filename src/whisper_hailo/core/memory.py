"""What a program that runs for days does about its memory."""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's `malloc.h`."""

_LARGE_BYTES: Final = 1 << 22
"""Smaller ones are worth keeping: a page that was given back costs a fault when it is used."""


def give_back_freed() -> None:
    """From now on, let the C library give large pieces of memory back when they are freed.

    What glibc takes for large grows with every piece that is freed, up to 32 MiB: a model's file is
    enough. Then audio, mel and features of all sizes lie between small things, and the room that
    they leave is kept: 35 MiB of captions after a quarter of an hour
    (docs/measurements/captions.md). Where there is another C library, nothing is done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            mallopt(parameter, _LARGE_BYTES)
