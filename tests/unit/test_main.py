"""The package as a program: its signals, its threads, and what importing it costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import whisper_hailo
from whisper_hailo.__main__ import OPENBLAS_PATIENCE

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
CODE = """
import os, sys
import whisper_hailo.__main__ as program, whisper_hailo.cli.app as app
print("numpy" in sys.modules)
app.run = lambda _: print(os.environ["OPENBLAS_THREAD_TIMEOUT"])
program.main()
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


@pytest.mark.parametrize("chosen", ["", "20"])
def test_main_sets_openblas_timeout_before_numpy_import(chosen: str) -> None:
    """The user's value precedes."""
    chosen_by_user = {"OPENBLAS_THREAD_TIMEOUT": chosen} if chosen else {}
    inherited = {
        name: value for name, value in os.environ.items() if "OPENBLAS" not in name
    }
    process = subprocess.run(
        [sys.executable, "-c", CODE], env=inherited | chosen_by_user, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert process.stdout.split() == ["False", chosen or OPENBLAS_PATIENCE]


def test_package_dir_is_its_public_interface() -> None:
    assert dir(whisper_hailo) == sorted(whisper_hailo.__all__)
    for name in whisper_hailo.__all__:
        assert getattr(whisper_hailo, name) is not None
        if name[0].isupper():
            assert getattr(whisper_hailo, name).__doc__
