import pytest

from whisper_hailo.cli import progress
from whisper_hailo.cli.progress import Progress, clock


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3600, "1:00:00")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_long_work_is_reported_and_short_work_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    long, short = Progress("long.wav"), Progress("short.wav")
    now[0] = 20.0
    long(100.0, 600.0)
    short(10.0, 30.0)
    now[0] = 25.0
    long(110.0, 600.0)  # too soon after the last line
    long.close()
    captured = capsys.readouterr()
    assert captured.err == "long.wav: 1:40 of 10:00, 5.0 x real time, 1:40 left\n"
    assert not captured.out


def test_nothing_is_reported_where_quiet_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    long = Progress("long.wav")
    monkeypatch.setattr(progress, "is_quiet", lambda: True)
    now[0] = 20.0
    long(100.0, 600.0)
    assert not capsys.readouterr().err


def test_a_stream_of_unknown_length(
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
def test_from_a_minute_on_progress_is_told(
    done_s: float, duration_s: float | None, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Of the recording, however little of it is done."""
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 1.0)
    now = iter((0.0, 10.0, 10.0))
    monkeypatch.setattr(progress, "monotonic", lambda: next(now))
    Progress("a")(done_s, duration_s)
    assert capsys.readouterr().err == told


def test_what_was_done_before_is_left_out_of_the_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock begins where it ends."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    told = Progress("a")
    told.skip(300.0)
    now[0] = 20.0
    told(300.0, 600.0)
    assert capsys.readouterr().err == "a: 5:00 of 10:00, 0.0 x real time\n"
    now[0] = 40.0
    told(400.0, 600.0)
    assert capsys.readouterr().err == "a: 6:40 of 10:00, 5.0 x real time, 0:40 left\n"
