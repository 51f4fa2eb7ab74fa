"""NumPy's threads sleep between two products, unless the user says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from whisper_hailo.__main__ import OPENBLAS_PATIENCE

CODE = """
import os, sys
import whisper_hailo.__main__ as program, whisper_hailo.cli.app as app
print("numpy" in sys.modules)
app.run = lambda _: print(os.environ["OPENBLAS_THREAD_TIMEOUT"])
program.main()
"""


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
