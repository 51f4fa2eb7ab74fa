"""What `serve` says before it does any work."""

from __future__ import annotations

import pytest

from whisper_hailo.cli.app import run
from whisper_hailo.core import extras


def test_an_extra_that_is_missing_is_told_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = extras.find_spec
    monkeypatch.setattr(
        extras, "find_spec", lambda name: None if name == "fastapi" else found(name)
    )
    assert run(["serve", "--model", "nowhere"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "serve needs fastapi, which is not installed: "
        "pip install -r requirements/server.txt in the clone"
    )


def test_a_model_that_is_nowhere_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi", reason="the server extra is not installed")
    assert run(["serve", "--model", "./nowhere", "--http", "127.0.0.1:0"]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1
