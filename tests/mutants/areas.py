"""What is mutated, and which unit tests are asked about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.mutants.change import ROOT

_PACKAGE: Final = "src/whisper_hailo"
_UNIT: Final = "tests/unit"


@dataclass(frozen=True, slots=True)
class Area:
    """Files of one kind.

    Attributes:
        sources: files and folders of the package.
        tests: those of the unit tests that are about it.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> list[str]:
        """All sources, from the repository's root."""
        return _python_files(_PACKAGE, self.sources, "*.py")

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
        ("windows.py", "vad.py", "channels.py", "features.py", "hearing", "longform", "pipeline"),
        (
            *("test_windows.py", "test_vad.py", "test_stretches.py", "test_channels.py"),
            *("test_features.py", "hearing", "longform", "pipeline"),
        ),
    ),
    "graphs": Area(
        ("convert/graphs",),
        (
            *("convert/graphs", "convert/hailo/test_graphs.py"),
            *("backends/test_onnx.py", "backends/test_audio_forms.py"),
        ),
    ),
    "hailo": Area(
        ("backends/hailo", "backends/hef"),
        ("backends/hailo", "backends/hef", "cli/test_doctor_hailo.py"),
    ),
    "live": Area(("live",), ("live",)),
    "subtitles": Area(
        ("subtitles.py", "outputs.py", "tokenizer.py", "vocabulary.py"),
        ("test_subtitles.py", "test_outputs.py", "test_tokenizer.py"),
    ),
    "scores": Area(
        ("bench/score.py", "bench/bootstrap.py", "bench/summary.py"),
        (
            *("bench/test_score.py", "bench/test_bootstrap.py"),
            *("bench/test_summary.py", "bench/test_normaliser.py"),
        ),
    ),
}


def area_of(path: str) -> str | None:
    """Name of the area that a file belongs to."""
    return next((name for name, area in AREAS.items() if path in area.files()), None)
