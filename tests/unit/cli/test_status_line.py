"""The line that says how far work is."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import sys
import termios

import pytest
from rich.cells import cell_len

from whisper_hailo.cli import progress, status_line
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.status_line import StatusLine, cropped

ERASE = "\r\x1b[K"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is one, of forty columns."""
    monkeypatch.setattr(status_line, "_on_terminal", lambda: True)
    monkeypatch.setattr(status_line, "_columns", lambda: 40)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("name", ["a", "an interview of two hours in Vienna.wav", "録音" * 30])
def test_a_line_never_wraps_and_its_figures_stay(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine(0.0)
    line.show(1.0, "1:40 of 10:00, 1:40 left", name)
    told = capsys.readouterr().err
    assert told.startswith(ERASE)
    shown = told.removeprefix(ERASE)
    assert cell_len(shown) <= 39
    assert shown.endswith(": 1:40 of 10:00, 1:40 left")
    line.show(2.0, "3 of 4: " + "what is done now " * 9)
    assert cell_len(capsys.readouterr().err.removeprefix(ERASE)) == 39


@pytest.mark.usefixtures("terminal")
def test_a_line_is_taken_away_once(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine(0.0)
    line.close()
    line.show(1.0, "1 of 2")
    line.close()
    line.close()
    assert capsys.readouterr().err == f"{ERASE}1 of 2{ERASE}"


def test_elsewhere_lines_are_whole_and_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine(0.0)
    assert not line.is_due(14.9)
    assert line.is_due(15.0)
    line.show(15.0, "done", "n" * 200)
    assert not line.is_due(29.9)
    line.close()
    assert capsys.readouterr().err == "n" * 200 + ": done\n"


@pytest.mark.usefixtures("terminal")
def test_nothing_is_due_where_quiet_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert StatusLine(0.0).is_due(0.2)
    monkeypatch.setattr(status_line, "is_quiet", lambda: True)
    assert not StatusLine(0.0).is_due(0.2)


@pytest.mark.usefixtures("terminal")
def test_a_long_name_leaves_room_for_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    told = Progress("a recording with a long name.wav")
    now[0] = 20.0
    told(100.0, 600.0)
    assert capsys.readouterr().err == f"{ERASE}1:40 of 10:00, 5.0 x real time, 1:40 l…"


def test_the_width_is_standard_error_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever standard output is."""
    monkeypatch.setenv("COLUMNS", "33")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 52, 0, 0))
    with open(theirs, "w", encoding="utf-8") as terminal, open(ours, "rb"):
        monkeypatch.setattr(sys, "stderr", terminal)
        assert status_line._columns() == 52
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert status_line._columns() == 33


@pytest.mark.parametrize(
    ("text", "room", "kept"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcd", 0, ""), ("日本", 3, "日…")],
)
def test_cropped(text: str, room: int, kept: str) -> None:
    assert cropped(text, room) == kept
