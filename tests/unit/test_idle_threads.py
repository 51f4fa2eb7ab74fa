"""NumPy's threads sleep between two products, unless the user says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from whisper_hailo.__main__ import OPENBLAS_PATIENCE, rest_when_idle


def test_the_user_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    rest_when_idle()
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == OPENBLAS_PATIENCE
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")
    rest_when_idle()
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == "20"


def test_it_is_said_before_numpy_is_there() -> None:
    code = "import sys, whisper_hailo.__main__; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
