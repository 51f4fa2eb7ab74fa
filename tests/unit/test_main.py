"""Signals that end the command."""

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import signal
from whisper_hailo.__main__ import _leave
signal.signal(signal.SIGTERM, _leave)
import slow
print("imported", flush=True)
while True:
    signal.pause()
"""
SLOW = """
import os, signal
os.kill(os.getpid(), signal.SIGTERM)
print("whole", flush=True)
"""


def test_signal_waits_for_the_end_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.splitlines()[0] == "whole"
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
