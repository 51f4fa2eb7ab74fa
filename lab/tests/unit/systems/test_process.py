"""Processes that answer line by line, and processes that only print."""

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


def make_command(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_answering_process_answers_until_its_end() -> None:
    process = AnsweringProcess(make_command(ECHO), dict(os.environ))
    assert process.ask("one") == {"said": "one"}
    assert process.ask("two") == {"said": "two"}
    assert process.alive
    with pytest.raises(ProcessEndedError, match="1: out of luck"):
        process.ask("die")
    assert not process.alive
    with pytest.raises(ProcessEndedError, match="out of luck"):
        process.ask("three")
    process.stop()


def test_answering_process_stop_ends_it() -> None:
    process = AnsweringProcess(make_command(ECHO), dict(os.environ))
    process.stop()
    assert not process.alive


def test_run_for_output_returns_output_or_raises() -> None:
    assert (
        run_for_output(make_command("print('yes')"), dict(os.environ), "no") == "yes\n"
    )
    with pytest.raises(ModelError, match="no room"):
        run_for_output(
            make_command("raise SystemExit('first\\nno room')"),
            dict(os.environ),
            "it cannot be done",
            ModelError,
        )
    with pytest.raises(ModelError, match="the benchmark"):
        run_for_output(
            make_command("raise SystemExit(3)"),
            dict(os.environ),
            "the benchmark",
            ModelError,
        )
