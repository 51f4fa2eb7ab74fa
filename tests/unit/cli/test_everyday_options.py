"""Everyday options: in groups, taken by a command, on the first screen."""

from __future__ import annotations

import re

import pytest

from tests.fakes.commands import full_help_of, help_of, rows_of
from whisper_hailo.cli.everyday_options import EVERYDAY_OPTIONS

SCREEN_LINES = 24
SCREEN_COLUMNS = 80


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(SCREEN_COLUMNS))


@pytest.mark.parametrize("command", EVERYDAY_OPTIONS)
def test_everyday_options_are_listed_in_groups(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(command, capsys)
    groups = EVERYDAY_OPTIONS[command]
    assert [*re.findall(r"^(\w[^\n]*):$", text, flags=re.MULTILINE)][-7:] == [*groups]
    every = rows_of(full_help_of(command, capsys))
    assert {*rows_of(text)} - {"MANIFEST"} <= {*every}
    assert "--encoder" not in rows_of(text)


def test_everyday_options_exist_in_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown: set[str] = set()
    for command in EVERYDAY_OPTIONS:
        shown |= {*rows_of(help_of(command, capsys))}
    listed = {name for names in EVERYDAY_OPTIONS["batch"].values() for name in names}
    assert listed <= shown


@pytest.mark.parametrize("command", ["caption"])
@pytest.mark.usefixtures("narrow")
def test_everyday_options_fit_the_first_screen(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = help_of(command, capsys).split("\n\n")
    upto = next(
        index for index, part in enumerate(first) if part.startswith("Options:")
    )
    screen = "\n\n".join(first[: upto + 1])
    everyday = rows_of(first[upto])
    assert len(screen.splitlines()) <= SCREEN_LINES
    assert 10 < len(everyday) <= 20
    assert {"--model", "--language", "--threads", "--verbose", "--quiet", "--help"} <= {
        *everyday
    }
    assert "…" not in screen
    assert "..." not in first[upto]
