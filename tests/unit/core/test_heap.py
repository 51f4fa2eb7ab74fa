"""Memory that was freed is not kept."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from whisper_hailo.core import process

_PROGRAM = """
import sys
import numpy as np
from whisper_hailo.core.process import release_freed_memory

def rss_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

if sys.argv[1] == "told":
    assert release_freed_memory()
np.ones(2 << 20)  # 16 MiB, freed at once: glibc takes it for a sign
begin = rss_mib()
blocks = [np.ones(1 << 17) for _ in range(64)]  # 1 MiB each
pins = [np.ones(8000) for _ in range(64)]  # more than there are holes for: some are behind them
blocks.clear()
print(rss_mib() - begin)
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no mallopt"
)
def test_blocks_before_one_that_stays_are_given_back() -> None:
    kept_mib = {}
    for how in ("told", "untold"):
        command = [sys.executable, "-c", _PROGRAM, how]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        kept_mib[how] = int(done.stdout)
    assert kept_mib["untold"] > 50, "glibc does not keep it any more: core/process.py may go"
    assert kept_mib["told"] < 10


def test_a_c_library_that_cannot_be_told_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert not process.release_freed_memory()


@pytest.mark.parametrize(("taken", "told"), [((1, 1), True), ((0, 1), False), ((1, 0), False)])
def test_blocks_of_128_kib_and_what_is_free_at_the_end_are_given_back(
    taken: tuple[int, int], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M_TRIM_THRESHOLD is -1 and M_MMAP_THRESHOLD -3 in `malloc.h`; both are 128 KiB at first."""
    said: list[tuple[int, int]] = []

    def mallopt(what: int, size: int) -> int:
        said.append((what, size))
        return taken[len(said) - 1]

    library = type("Library", (), {"mallopt": staticmethod(mallopt)})
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    assert process.release_freed_memory() is told
    assert said == [(-1, 131_072), (-3, 131_072)][: len(said)]
    assert len(said) == 2 or not told
