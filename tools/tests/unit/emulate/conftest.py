"""The bundled model with Hailo forms of a short window, and calibration sets of real speech."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.shared import converted, made_once
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.options import CalibrationOptions

ROOT = Path(__file__).parents[4]
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
SPEECH = unpack_clips() / "seen"


@pytest.fixture(scope="session")
def _micro(shared: Path) -> Path:
    return converted(shared, MICRO, ConvertOptions("none", hailo=HailoOptions(2, 16)))


@pytest.fixture
def micro(_micro: Path, tmp_path: Path) -> Path:
    """A copy that a test may write to; the graphs are shared."""
    out = tmp_path / "micro"
    shutil.copytree(_micro, out, copy_function=lambda a, b: Path(b).hardlink_to(a))
    return out


@pytest.fixture(scope="session")
def sets(shared: Path, _micro: Path) -> dict[str, Path]:
    """Part to a calibration set of 12 windows."""

    def make(folder: Path) -> None:
        for part in ("encoder", "decoder"):
            calibrate(
                _micro, SPEECH, folder / part, CalibrationOptions(part=part, count=12)
            )

    folder = made_once(shared / "sets-of-micro", make)
    return {path.parent.name: path for path in folder.glob("*/*.np[yz]")}
