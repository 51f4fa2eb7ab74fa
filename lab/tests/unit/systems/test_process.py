"""Processes that answer, end, or only write something."""

from __future__ import annotations

import os
import sys

import pytest

from whisper_hailo.core.errors import ModelError
from whisper_hailo_lab.systems.process import (
    AnsweringProcess,
    ProcessEndedError,
    run_for_output,
)

ECHO = """
import json, sys
for line in sys.stdin:
    if line == "die\\n":
        sys.exit("first line\\nout of luck")
    print(json.dumps({"said": line.strip()}), flush=True)
"""


def words(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_lines_are_answered_until_it_ends() -> None:
    process = AnsweringProcess(words(ECHO), dict(os.environ))
    assert process.ask("one") == {"said": "one"}
    assert process.ask("two") == {"said": "two"}
    assert process.alive
    with pytest.raises(ProcessEndedError, match="code 1: out of luck"):
        process.ask("die")
    assert not process.alive
    with pytest.raises(ProcessEndedError, match="out of luck"):
        process.ask("three")
    process.stop()


def test_end_of_input_ends_it() -> None:
    process = AnsweringProcess(words(ECHO), dict(os.environ))
    process.stop()
    assert not process.alive


def test_what_a_program_writes_or_why_it_failed() -> None:
    assert run_for_output(words("print('yes')"), dict(os.environ), "no") == "yes\n"
    with pytest.raises(ModelError, match="no room"):
        run_for_output(
            words("raise SystemExit('first\\nno room')"),
            dict(os.environ),
            "it cannot be done",
            ModelError,
        )
    with pytest.raises(ModelError, match="nothing"):
        run_for_output(words("raise SystemExit(3)"), dict(os.environ), "it", ModelError)
