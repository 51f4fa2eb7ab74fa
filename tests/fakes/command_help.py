"""The help of a command, and its options by name."""

from __future__ import annotations

import re

import pytest

from whisper_hailo.cli.app import run


def help_of(
    command: str, capsys: pytest.CaptureFixture[str], word: str = "--help"
) -> str:
    assert run([command, word]) == 0
    return capsys.readouterr().out


def full_help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the help with the rare options, where there are some."""
    text = help_of(command, capsys)
    return help_of(command, capsys, "--help-all") if "--help-all" in text else text


def rows_of(text: str) -> dict[str, str]:
    """Return the help of each option by its long name."""
    rows: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        found = re.match(r" +(?:-\w, )?((?:--)?(?:\[no-\])?[\w-]+)(.*)", line)
        if found and re.match(r" {2}-\w, | {6}--| {2}[a-z]", line):
            name = found[1].replace("[no-]", "")
            assert name not in rows, f"{name} is there twice"
            rows[name] = found[2].strip()
        elif name and line.startswith(" " * 8):
            rows[name] += " " + line.strip()
        else:
            name = ""
    return rows
