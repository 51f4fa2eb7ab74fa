"""A model, sets to calibrate with, and the stand-in where the build process finds it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.standin import FOLDER
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.options import CalibrationOptions, CompileOptions

STEM = "micro_encoder_2s"


@pytest.fixture(scope="module")
def sets(
    micro: Path, recordings: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("sets")
    parts = ("encoder", "decoder")
    options = {part: CalibrationOptions(part=part, count=4) for part in parts}
    return {
        part: calibrate(micro, recordings, out, options[part]).path for part in parts
    }


@pytest.fixture
def model(micro: Path, tmp_path: Path) -> Path:
    shutil.copytree(micro, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is what the build process finds."""
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))


@pytest.fixture
def encoder(sets: dict[str, Path]) -> CompileOptions:
    return CompileOptions(arch="hailo8l", part="encoder", calibration=sets["encoder"])
