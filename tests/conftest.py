"""Comes first: what the package does for its users' privacy, it does for that of its tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before NumPy is there: tests run beside each other, a core for each process.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import whisper_hailo  # noqa: E402, F401 - before a test imports ONNX Runtime by itself


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same in all of its processes; see `tests.shared`."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
