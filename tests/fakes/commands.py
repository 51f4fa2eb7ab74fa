"""Commands of the program: their help, options, calls, and the data that messages must have."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Self

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


def given(typed: str, folder: Path) -> list[str]:
    """Return the words of `--threads 2 | seed = 7`, what is behind the bar in a file of `folder`.

    Several keys are separated by `;`.
    """
    words, _, settings = typed.partition("|")
    if not settings:
        return words.split()
    file = folder / "settings.toml"
    file.write_text("\n".join(settings.split(";")), encoding="utf-8")
    return [*words.split(), "--config", str(file)]


class Asked:
    """Gives the same answer whenever it is called.

    Args:
        answer: what it gives.

    Attributes:
        with_: the arguments of each call.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.with_: list[tuple[Any, ...]] = []

    def __call__(self, *given: Any) -> Any:
        self.with_.append(given)
        return self._answer

    def patched(self, monkeypatch: pytest.MonkeyPatch, place: str) -> Self:
        """The same, in the place of a function until the end of the test."""
        monkeypatch.setattr(place, self)
        return self


def missing_data(message: str, data: str) -> list[str]:
    """Return the data, separated as by a shell, that a message does not have as whole words."""
    return [
        datum
        for datum in shlex.split(data)
        if not re.search(rf"(?<![\w-]){re.escape(datum)}(?!\w)", message)
    ]
