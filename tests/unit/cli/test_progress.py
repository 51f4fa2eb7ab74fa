"""The line that says how far work is, and the rest of a recording and of all of them."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from whisper_hailo.cli import progress
from whisper_hailo.cli.progress import Progress, StatusLine, clock, crop_text
from whisper_hailo.cli.workload import Workload

ERASE = "\r\x1b[K"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3600, "1:00:00")]
)
def test_clock_formats_minutes_and_hours(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_progress_reports_long_work_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    long = Progress("long.wav")
    short = Progress("short.wav")
    now[0] = 20.0
    long(100.0, 600.0)
    short(10.0, 30.0)
    now[0] = 25.0
    long(110.0, 600.0)  # too soon after the last line
    long.close()
    captured = capsys.readouterr()
    assert captured.err == "long.wav: 1:40 of 10:00, 5.0 x real time, 1:40 left\n"
    assert not captured.out


def test_progress_quiet_reports_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    long = Progress("long.wav")
    monkeypatch.setattr(progress, "is_quiet", lambda: True)
    now[0] = 20.0
    long(100.0, 600.0)
    assert not capsys.readouterr().err


def test_progress_of_unknown_length_has_no_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    stream = Progress("radio")
    now[0] = 30.0
    stream(90.0, None)
    assert capsys.readouterr().err == "radio: 1:30, 3.0 x real time\n"


@pytest.mark.parametrize(
    ("done_s", "duration_s", "told"),
    [
        (10.0, 60.0, "a: 0:10 of 1:00, 1.0 x real time, 0:50 left\n"),
        (10.0, 59.9, ""),
        (60.0, None, "a: 1:00, 6.0 x real time\n"),
        (59.9, None, ""),
        (700.0, 600.0, "a: 11:40 of 10:00, 70.0 x real time, 0:00 left\n"),
    ],
)
def test_progress_reports_recordings_from_a_minute(
    done_s: float, duration_s: float | None, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The total is of the recording, however little of it is done."""
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 1.0)
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    line = Progress("a")
    now[0] = 10.0
    line(done_s, duration_s)
    assert capsys.readouterr().err == told


def test_progress_speed_omits_skipped_audio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock begins where it ends."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    line = Progress("a")
    line.skip(300.0)
    now[0] = 20.0
    line(300.0, 600.0)
    assert capsys.readouterr().err == "a: 5:00 of 10:00, 0.0 x real time\n"
    now[0] = 40.0
    line(400.0, 600.0)
    assert capsys.readouterr().err == "a: 6:40 of 10:00, 5.0 x real time, 0:40 left\n"


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, on a terminal."""
    seconds = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setattr(progress, "terminal_width", lambda: 100)
    return seconds


class HandTicker:
    """Ticks when a test says so."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.tick = function
        self.is_open = False
        TICKERS.append(self)

    def open(self) -> HandTicker:
        self.is_open = True
        return self

    def close(self) -> None:
        self.is_open = False


TICKERS: list[HandTicker] = []


@pytest.fixture
def tickers(monkeypatch: pytest.MonkeyPatch) -> list[HandTicker]:
    TICKERS.clear()
    monkeypatch.setattr(progress, "Ticker", HandTicker)
    return TICKERS


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.removeprefix("\r\x1b[K")


def test_progress_shows_a_sign_before_the_first_window(
    now: list[float], tickers: list[HandTicker], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("a") as line:
        now[0] = 1.9
        tickers[0].tick()
        assert shown(capsys) == ""
        now[0] = 4.0
        tickers[0].tick()
        assert shown(capsys) == "a: transcribing, 0:04 so far"
        line(20.0, 30.0)
        now[0] = 6.0
        tickers[0].tick()
        assert shown(capsys) == "a: 0:20 of 0:30, 5.0 x real time, 0:00 left"
    assert not tickers[0].is_open


def test_progress_counts_down_between_windows(
    now: list[float], tickers: list[HandTicker], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("a") as line:
        now[0] = 10.0
        line(100.0, 600.0)
        assert shown(capsys).endswith("0:50 left")
        now[0] = 13.0
        tickers[0].tick()
        assert shown(capsys).endswith("0:47 left")


def test_progress_of_several_shows_which_and_the_rest_of_all(
    now: list[float], tmp_path: Path, tickers: list[HandTicker],
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("whisper_hailo.cli.workload.monotonic", lambda: now[0])
    paths: list[Path | None] = [tmp_path / f"{name}.wav" for name in "abc"]
    for path in paths:
        assert path is not None
        path.write_bytes(bytes(100))
    work = Workload(paths)
    work.begin(1)
    with Progress("b.wav", work) as line:
        now[0] = 10.0
        line(100.0, 200.0)
    assert shown(capsys).startswith(
        "2 of 3, b.wav: 1:40 of 3:20, 10.0 x real time, about 0:30 left for all"
    )
    assert len(tickers) == 1


def test_progress_shows_the_search_for_speakers(
    now: list[float], tickers: list[HandTicker], capsys: pytest.CaptureFixture[str]
) -> None:
    """The search for speakers has a time of its own."""
    with Progress("a") as line:
        line.find_speakers(90.0, None)
        now[0] = 20.0
        tickers[0].tick()
        assert shown(capsys) == "a: finding the speakers, 1:30"
        line.find_speakers(600.0, 600.0)
        now[0] = 24.0
        tickers[0].tick()
        assert shown(capsys) == "a: transcribing, 0:04 so far"
        now[0] = 30.0
        line(100.0, 600.0)
        assert shown(capsys) == "a: 1:40 of 10:00, 10.0 x real time, 0:50 left"


def test_progress_ticks_on_terminals_only(
    monkeypatch: pytest.MonkeyPatch, tickers: list[HandTicker]
) -> None:
    monkeypatch.setattr(progress, "is_terminal", lambda: False)
    with Progress("a"):
        assert not tickers
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setattr(progress, "is_quiet", lambda: True)
    with Progress("a"):
        assert not tickers


def test_ticker_calls_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_TICK_S", 0.001)
    second = threading.Event()
    calls: list[int] = []

    def count() -> None:
        calls.append(1)
        if len(calls) == 2:
            second.set()

    with progress.Ticker(count):
        assert second.wait(60)
    n_calls = len(calls)
    second.clear()
    assert not second.wait(0.02)
    assert len(calls) == n_calls


def test_status_line_stays_away_while_it_is_hidden(
    now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = progress.StatusLine()
    now[0] = 1.0
    line.update("1 of 2")
    now[0] = 2.0
    other = threading.Thread(target=line.update, args=("2 of 2",))
    with line.hidden():
        other.start()
        other.join(0.05)
        sys.stderr.write("text\n")
    other.join()
    assert capsys.readouterr().err.split("\r\x1b[K") == [
        "",
        "1 of 2",
        "text\n",
        "2 of 2",
    ]


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: seconds[0])
    return seconds


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
    name: str, seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    seconds[0] = 1.0
    line.update("1:40 of 10:00, 1:40 left", name)
    output = capsys.readouterr().err
    assert output.startswith(ERASE)
    shown = output.removeprefix(ERASE)
    assert cell_len(shown) <= 39
    assert shown.endswith(": 1:40 of 10:00, 1:40 left")
    seconds[0] = 2.0
    line.update("3 of 4: " + "what is done now " * 9)
    assert cell_len(capsys.readouterr().err.removeprefix(ERASE)) == 39


@pytest.mark.usefixtures("terminal")
def test_status_line_close_erases_once(
    seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    line.close()
    seconds[0] = 1.0
    line.update("1 of 2")
    line.close()
    line.close()
    assert capsys.readouterr().err == f"{ERASE}1 of 2{ERASE}"


def test_status_line_without_terminal_is_rare_and_whole(
    seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    for seconds[0], text in ((14.9, "too soon"), (15.0, "done"), (29.9, "too soon")):
        line.update(text, "n" * 200)
    line.close()
    assert capsys.readouterr().err == "n" * 200 + ": done\n"


@pytest.mark.usefixtures("terminal")
def test_progress_long_name_keeps_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: seconds[0])
    output = Progress("a recording with a long name.wav")
    seconds[0] = 20.0
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
    seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever buffer standard error has: it says how far it is now."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[arg-type]
    line = StatusLine()
    seconds[0] = 1.0
    line.update("1 of 2")
    assert raw.getvalue() == f"{ERASE}1 of 2".encode()
    line.close()
    assert raw.getvalue() == f"{ERASE}1 of 2{ERASE}".encode()


def test_status_line_without_terminal_is_flushed(
    seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[arg-type]
    line = StatusLine()
    seconds[0] = 15.0
    line.update("1 of 2", "a")
    assert raw.getvalue() == b"a: 1 of 2\n"


@pytest.mark.usefixtures("terminal")
def test_status_line_updates_five_times_a_second(
    seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    for seconds[0], text in ((0.1, "too soon"), (0.25, "1 of 2"), (0.3, "too soon")):
        line.update(text)
    assert capsys.readouterr().err == f"{ERASE}1 of 2"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("n_letters", [20, 29, 30, 31, 90])
def test_status_line_name_fills_room_left_by_figures(
    n_letters: int, seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    line = StatusLine()
    seconds[0] = 1.0
    line.update("1:40 of", "n" * n_letters)
    shown = capsys.readouterr().err.removeprefix(ERASE)
    assert cell_len(shown) == min(39, n_letters + 9)
    assert shown.endswith("n: 1:40 of" if n_letters <= 30 else "n…: 1:40 of")
