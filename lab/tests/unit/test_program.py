"""Exit codes and errors of programs that measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.cli import progress as status
from whisper_hailo.core.errors import ExitCode, ModelError
from whisper_hailo_lab import program, repository
from whisper_hailo_lab.program import StepProgress, first_line, run_program


def test_run_program_returns_the_exit_code() -> None:
    assert run_program(lambda: None) == 0
    assert run_program(lambda: 1) == 1


def test_run_program_prints_an_error_as_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        raise ModelError("no such model; convert it")

    assert run_program(fails) == ExitCode.MODEL
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(": no such model; convert it")


def test_run_program_outside_a_clone_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(repository, "RESULTS", Path("/nowhere"))
    assert run_program(lambda: pytest.fail("it has begun")) == ExitCode.USAGE
    assert "clone" in capsys.readouterr().err


def test_first_line_ends_at_the_line_end() -> None:
    assert first_line("One.\n\nTwo.") == "One."
    assert first_line(None) == ""


def test_step_progress_shows_step_and_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    for module in (status, program):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
    show = StepProgress()
    show(1, 9, "too soon")
    now[0] = 175.0
    show(2, 9, "measuring")
    show(3, 9, "too soon again")
    show.close()
    assert capsys.readouterr().err == "2 of 9, 1:15: measuring\n"
