"""The bundled model with Hailo forms of a short window, and calibration sets of real speech."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.hailo_tools.calibrate.make import calibrate
from whisper_hailo.hailo_tools.calibrate.options import CalibrationOptions

ROOT = Path(__file__).parents[4]
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
SPEECH = ROOT / "tests" / "data" / "micro" / "seen"


@pytest.fixture(scope="session")
def _micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("emulate") / "micro"
    convert_checkpoint(MICRO, out, ConvertOptions(hailo=HailoOptions(2, 12)))
    return out


@pytest.fixture
def micro(_micro: Path, tmp_path: Path) -> Path:
    """A copy that a test may write to; the graphs are shared."""
    out = tmp_path / "micro"
    shutil.copytree(_micro, out, copy_function=lambda a, b: Path(b).hardlink_to(a))
    return out


@pytest.fixture(scope="session")
def sets(_micro: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Part to a calibration set of 12 windows."""
    folder = tmp_path_factory.mktemp("sets")
    return {
        part: calibrate(_micro, SPEECH, folder, CalibrationOptions(part=part, count=12)).path
        for part in ("encoder", "decoder")
    }
