"""Progress of named steps."""

from __future__ import annotations

import pytest

from whisper_hailo.cli import progress
from whisper_hailo_lab import steps
from whisper_hailo_lab.steps import Steps


def test_steps_are_told_with_their_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    for module in (progress, steps):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
    told = Steps()
    told(1, 9, "too soon")
    now[0] = 175.0
    told(2, 9, "measuring")
    told(3, 9, "too soon again")
    told.close()
    assert capsys.readouterr().err == "2 of 9, 1:15: measuring\n"
