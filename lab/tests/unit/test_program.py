"""How a program that measures ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.core.errors import ExitCode, ModelError
from whisper_hailo_lab import repository
from whisper_hailo_lab.program import description, run


def test_the_exit_code_is_the_programs_own() -> None:
    assert run(lambda: None) == 0
    assert run(lambda: 1) == 1


def test_a_failure_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise ModelError("no such model; convert it")

    assert run(fails) == ExitCode.MODEL
    assert capsys.readouterr().err == "whisper-hailo: no such model; convert it\n"


def test_an_installed_package_without_the_repository_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(repository, "RESULTS", Path("/nowhere"))
    assert run(lambda: pytest.fail("it has begun")) == ExitCode.USAGE
    assert "run it in a clone" in capsys.readouterr().err


def test_the_help_begins_with_the_first_line() -> None:
    assert description("One.\n\nTwo.") == "One."
    assert description(None) == ""
