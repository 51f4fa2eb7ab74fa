from __future__ import annotations

import pytest

from whisper_hailo_lab.runs.machine import HIDDEN, usable_instruction_sets

XEON = {"fpu", "avx2", "avx512f", "avx512_vnni", "avx_vnni"}


@pytest.mark.parametrize(
    ("flags", "is_saturating", "expected"),
    [
        (XEON, False, ("AVX2", "AVX-512", "VNNI")),
        (XEON, True, ("AVX2", HIDDEN)),
        ({"fpu", "avx2"}, True, ("AVX2",)),
        ({"avx2", "avx512f"}, True, ("AVX2", "AVX-512")),
        ({"asimd", "asimddp", "asimdhp"}, False, ("NEON", "dot products", "float16")),
        (set(), True, ()),
    ],
)
def test_usable_instruction_sets_are_those_of_the_runtime(
    flags: set[str], is_saturating: bool, expected: tuple[str, ...]
) -> None:
    assert usable_instruction_sets(flags, is_saturating=is_saturating) == expected
