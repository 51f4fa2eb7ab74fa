"""Folders of the repository: the laboratory measures a clone, not an installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import whisper_hailo
from whisper_hailo.core.errors import OptionError

PACKAGE: Final = Path(whisper_hailo.__file__).resolve().parent
LAB: Final = Path(__file__).resolve().parents[2]
"""This distribution in the clone; some other folder for an installed package."""

ROOT: Final = LAB.parent
SOURCES: Final = (PACKAGE.parent, ROOT / "tools" / "src", LAB / "src")
"""Where Python finds the three distributions."""

BUILD: Final = ROOT / "build"
RESULTS: Final = LAB / "benchmarks" / "results"
RIVALS: Final = LAB / "benchmarks" / "rivals"
CLIPS: Final = ROOT / "tests" / "data" / "micro"
"""The frozen test sets of the bundled model, an archive each; `clip_archives` reads them."""

MICRO: Final = PACKAGE / "assets" / "micro"


def require_clone() -> None:
    """Raise `OptionError` where there is only an installed package."""
    if not RESULTS.is_dir():
        raise OptionError(
            f"{RESULTS} does not exist: this program measures a clone of the repository; run it in "
            "one"
        )
