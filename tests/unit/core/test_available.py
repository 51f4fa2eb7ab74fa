"""Memory that is free."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.transcription import pipeline
from whisper_hailo.transcription.pipeline import available_bytes


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("MemTotal:  9 kB\nMemAvailable:    1234 kB\nMemFree: 7 kB\n", 1234 * 1024),
        ("NotMemAvailable: 5 kB\n", None),
        ("MemTotal:  9 kB\n", None),
        ("MemAvailable:\n", None),
        ("MemAvailable: 3", 3072),
        ("MemAvailable: much kB\n", None),
        ("Odd: \xff\nMemAvailable: 2 kB\n", 2048),
        ("", None),
        (None, None),
    ],
)
def test_memory_is_what_the_system_could_give(
    content: str | None, found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "meminfo").write_text(content, encoding="latin-1")
    monkeypatch.setattr(pipeline, "MEMINFO", tmp_path / "meminfo")
    assert available_bytes() == found
