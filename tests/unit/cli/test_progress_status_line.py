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

from whisper_hailo.cli import progress
from whisper_hailo.cli.progress import Progress, StatusLine, crop_text

ERASE = "\r\x1b[K"


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds."""
    found = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: found[0])
    return found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is one, of forty columns."""
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setattr(progress, "terminal_width", lambda: 40)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    "name", ["a", "an interview of two hours in Vienna.wav", "録音" * 30]
)
def test_status_line_fits_width_and_keeps_figures(
    name: str, now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    now[0] = 1.0
    line.update("1:40 of 10:00, 1:40 left", name)
    output = capsys.readouterr().err
    assert output.startswith(ERASE)
    shown = output.removeprefix(ERASE)
    assert cell_len(shown) <= 39
    assert shown.endswith(": 1:40 of 10:00, 1:40 left")
    now[0] = 2.0
    line.update("3 of 4: " + "what is done now " * 9)
    assert cell_len(capsys.readouterr().err.removeprefix(ERASE)) == 39


@pytest.mark.usefixtures("terminal")
def test_status_line_close_erases_once(
    now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    line.close()
    now[0] = 1.0
    line.update("1 of 2")
    line.close()
    line.close()
    assert capsys.readouterr().err == f"{ERASE}1 of 2{ERASE}"


def test_status_line_without_terminal_is_rare_and_whole(
    now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    for now[0], text in ((14.9, "too soon"), (15.0, "done"), (29.9, "too soon")):
        line.update(text, "n" * 200)
    line.close()
    assert capsys.readouterr().err == "n" * 200 + ": done\n"


@pytest.mark.usefixtures("terminal")
def test_progress_long_name_keeps_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    output = Progress("a recording with a long name.wav")
    now[0] = 20.0
    output(100.0, 600.0)
    assert capsys.readouterr().err == f"{ERASE}1:40 of 10:00, 5.0 x real time, 1:40 l…"


def test_terminal_width_is_that_of_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever standard output is."""
    monkeypatch.setenv("COLUMNS", "33")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 52, 0, 0))
    with open(theirs, "w", encoding="utf-8") as terminal, open(ours, "rb"):
        monkeypatch.setattr(sys, "stderr", terminal)
        assert progress.terminal_width() == 52
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        assert progress.terminal_width() == 80, "a terminal that does not know its size"
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert progress.terminal_width() == 33


@pytest.mark.parametrize(
    ("text", "room", "kept"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcd", 0, ""), ("日本", 3, "日…")],
)
def test_crop_text_ends_with_ellipsis(text: str, room: int, kept: str) -> None:
    assert crop_text(text, room) == kept


@pytest.mark.usefixtures("terminal")
def test_status_line_on_terminal_is_flushed(
    now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever buffer standard error has: it says how far it is now."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[arg-type]
    line = StatusLine()
    now[0] = 1.0
    line.update("1 of 2")
    assert raw.getvalue() == f"{ERASE}1 of 2".encode()
    line.close()
    assert raw.getvalue() == f"{ERASE}1 of 2{ERASE}".encode()


def test_status_line_without_terminal_is_flushed(
    now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[arg-type]
    line = StatusLine()
    now[0] = 15.0
    line.update("1 of 2", "a")
    assert raw.getvalue() == b"a: 1 of 2\n"


@pytest.mark.usefixtures("terminal")
def test_status_line_updates_five_times_a_second(
    now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    for now[0], text in ((0.1, "too soon"), (0.25, "1 of 2"), (0.3, "too soon")):
        line.update(text)
    assert capsys.readouterr().err == f"{ERASE}1 of 2"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("n_letters", [20, 29, 30, 31, 90])
def test_status_line_name_fills_room_left_by_figures(
    n_letters: int, now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    now[0] = 1.0
    line.update("1:40 of", "n" * n_letters)
    shown = capsys.readouterr().err.removeprefix(ERASE)
    assert cell_len(shown) == min(39, n_letters + 9)
    assert shown.endswith("n: 1:40 of" if n_letters <= 30 else "n…: 1:40 of")
