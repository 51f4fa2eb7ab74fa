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


def test_main_signal_during_an_import_waits_for_its_end(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert process.stdout.splitlines()[0] == "whole"
    assert process.returncode == 128 + signal.SIGTERM, process.stderr
