"""Vector instructions of this processor that matter for the speed of Whisper."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from whisper_hailo.backends.session import saturates
from whisper_hailo.core.process import read_cpu_flags

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
