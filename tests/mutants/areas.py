"""What is mutated, and which unit tests are asked about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.mutants.change import ROOT

_PRODUCT: Final = "src/whisper_hailo"
_LABORATORY: Final = "lab/src/whisper_hailo_lab"
_UNIT: Final = "tests/unit"


@dataclass(frozen=True, slots=True)
class Area:
    """Files of one kind.

    Attributes:
        sources: files and folders of the package.
        tests: those of the unit tests that are about it.
        package: where the sources lie.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    package: str = _PRODUCT

    def files(self) -> list[str]:
        """All sources, from the repository's root."""
        return _python_files(self.package, self.sources, "*.py")

    def test_files(self) -> list[str]:
        """All files of tests, from the repository's root."""
        return _python_files(_UNIT, self.tests, "test_*.py")


def _python_files(base: str, names: tuple[str, ...], pattern: str) -> list[str]:
    found = []
    for name in names:
        at = ROOT / base / name
        found += sorted(at.rglob(pattern)) if at.is_dir() else [at]
    return [str(path.relative_to(ROOT)) for path in found if path.stat().st_size]


AREAS: Final = {
    "decoding": Area(("decoding",), ("decoding",)),
    "window path": Area(
        (
            *("audio/windows.py", "audio/vad.py", "audio/log_mel.py"),
            "transcription",
        ),
        (
            *("audio/test_windows.py", "audio/test_vad.py", "audio/test_log_mel.py"),
            "transcription",
        ),
    ),
    "graphs": Area(
        ("convert/graphs",),
        (
            *("convert/graphs", "convert/hailo/test_forms.py"),
            *("backends/test_onnx.py", "backends/test_onnx_refusals.py"),
            "backends/test_audio_forms.py",
        ),
    ),
    "hailo": Area(
        ("backends/hailo",),
        ("backends/hailo", "cli/test_doctor_hailo.py"),
    ),
    "live": Area(("live", "http"), ("live", "http")),
    "subtitles": Area(("text",), ("text",)),
    "files of sound": Area(
        tuple(f"audio/{name}.py" for name in ("decode", "files", "flac", "readers", "stream")),
        ("audio",),
    ),
    "converter": Area(
        (
            *("checkpoint", "convert/hailo_forms.py"),
            *(f"convert/{name}.py" for name in ("convert", "inspect", "model_cache", "options")),
        ),
        ("checkpoint", "convert"),
    ),
    "archives": Area(("batch",), ("batch",)),
    "command": Area(("cli",), ("cli",)),
    "core": Area(("core",), ("core", "cli/test_messages.py")),
    "scores": Area(
        ("score.py", "rates.py", "runs/summary.py"),
        ("lab/test_score.py", "lab/test_rates.py", "lab/runs/test_summary.py"),
        _LABORATORY,
    ),
}


def area_of(path: str) -> str | None:
    """Name of the area that a file belongs to."""
    return next((name for name, area in AREAS.items() if path in area.files()), None)
