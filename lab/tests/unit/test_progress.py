"""Progress of named steps."""

from __future__ import annotations

import pytest

from whisper_hailo.cli import progress as status
from whisper_hailo_lab import progress
from whisper_hailo_lab.progress import StepProgress


def test_step_progress_shows_step_and_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    for module in (status, progress):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
    show = StepProgress()
    show(1, 9, "too soon")
    now[0] = 175.0
    show(2, 9, "measuring")
    show(3, 9, "too soon again")
    show.close()
    assert capsys.readouterr().err == "2 of 9, 1:15: measuring\n"
