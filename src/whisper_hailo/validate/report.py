"""What a validation found, as data for `parity.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whisper_hailo.core.spec import PARITY_FILES
from whisper_hailo.core.version import __version__
from whisper_hailo.validate.ladder import FAILED, RungResult
from whisper_hailo.validate.limits import AGAINST

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ParityReport:
    """One climb of the ladder.

    Attributes:
        model: its name.
        directory: the model directory.
        reference: what all rungs were compared with.
        window_s: seconds of each window.
        used: recording and number of the window in it, for each window.
        calibrated_on: the same for the windows that an emulation's scales were chosen by.
        audio_sha256: recording to hash.
        files: file of the model directory to hash.
        results: every rung.
    """

    model: str
    directory: Path
    reference: str
    window_s: float
    used: tuple[tuple[str, int], ...]
    calibrated_on: tuple[tuple[str, int], ...]
    audio_sha256: dict[str, str]
    files: dict[str, str]
    results: tuple[RungResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every rung that was run is within its limit."""
        return all(result.status != FAILED for result in self.results)

    @property
    def files_written(self) -> tuple[str, str]:
        """Names of its JSON and its picture."""
        foreign = any(result.rung == AGAINST for result in self.results)
        return PARITY_FILES[2:] if foreign else PARITY_FILES[:2]

    def to_dict(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "whisper_hailo": __version__,
            "model": self.model,
            "reference": self.reference,
            "passed": self.passed,
            "window_s": self.window_s,
            "windows": [{"file": name, "window": number} for name, number in self.used],
            "calibrated_on": [
                {"file": name, "window": number} for name, number in self.calibrated_on
            ],
            "audio_sha256": self.audio_sha256,
            "files": self.files,
            "rungs": [result.to_dict() for result in self.results],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
