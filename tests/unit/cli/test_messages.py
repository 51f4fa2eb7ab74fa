"""Reports of errors: one line, an exit code, and interruptions."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from whisper_hailo.cli.messages import (
    DEBUG_VARIABLE,
    LONGEST_LINE,
    OneLine,
    describe_error,
    one_line,
    report_error,
    was_interrupted,
)
from whisper_hailo.core.errors import AudioError, ExitCode, OptionError


def test_was_interrupted_follows_causes() -> None:
    # As pybind11's modules do it, and as our own code names a package that is not there.
    failed = ImportError("initialization failed")
    failed.__cause__ = KeyboardInterrupt()
    absent = OptionError("it is not installed")
    absent.__context__ = failed
    assert was_interrupted(failed)
    assert was_interrupted(absent)


def test_was_interrupted_of_other_error_is_false() -> None:
    failed = ImportError("no module of that name")
    failed.__cause__ = OSError("disk")
    assert not was_interrupted(failed)
    assert not was_interrupted(OptionError("--window is 0"))


def test_one_line_escapes_control_characters() -> None:
    assert (
        one_line("  first\nsecond\r\n\n third\u2028fourth ")
        == "first second third fourth"
    )
    assert one_line("two  blanks stay") == "two  blanks stay"
    assert (
        one_line("\x1b[31mred\x07\x9b \u202e\udcff")
        == r"\x1b[31mred\x07\x9b \u202e\udcff"
    )
    assert one_line("日本語 ñ 👩") == "日本語 ñ 👩"


def test_report_error_line_has_at_most_500_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "abcdefghi/" * 400 + "a.wav"
    for error in (
        AudioError(f"{name} does not exist; check the path"),
        ValueError("x" * 10_000),
    ):
        report_error(error)
        line = capsys.readouterr().err.rstrip("\n")
        assert len(line) <= LONGEST_LINE == 500
        assert line.startswith("whisper-hailo: ")
        assert len(describe_error(error)) <= LONGEST_LINE
    report_error(AudioError(f"{name} does not exist; check the path"))
    line = capsys.readouterr().err
    assert line.startswith("whisper-hailo: abcdefghi/abcdefghi/")
    assert line.endswith("check the path\n")
    report_error(ValueError("x" * 10_000))
    assert capsys.readouterr().err.startswith("whisper-hailo: ")


def test_report_error_escapes_line_end_of_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report_error(AudioError("two\nlines\x1b[31m.wav does not exist\n"))
    report_error(ValueError("of a library,\nin two lines"))
    ours, theirs = capsys.readouterr().err.splitlines()
    assert ours == r"whisper-hailo: two\nlines\x1b[31m.wav does not exist"
    assert "(ValueError: of a library, in two lines)" in theirs


def test_one_line_formatter_escapes_log_records() -> None:
    record = logging.makeLogRecord(
        {"msg": "%s breaks\noff", "args": ("\x1b[31m" + "x" * 600,)}
    )
    line = OneLine().format(record)
    assert line.startswith(r"\x1b[31mxxx")
    assert line.endswith("x breaks off")
    assert len(line) <= LONGEST_LINE


def test_report_error_deleted_folder_is_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FileNotFoundError) as elsewhere:
        (tmp_path / "missing").stat()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError) as caught:
        Path.cwd()
    assert report_error(caught.value) == ExitCode.USAGE
    assert "working directory" in capsys.readouterr().err
    assert report_error(elsewhere.value) == ExitCode.INTERNAL
    assert (
        report_error(OSError(errno.EBADF, "Bad file descriptor")) == ExitCode.INTERNAL
    )


@pytest.mark.parametrize("name", ["ENAMETOOLONG", "ELOOP", "EACCES", "EPERM", "EILSEQ"])
def test_report_error_of_path_names_path(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        report_error(OSError(getattr(errno, name), "It is odd", "xx\n"))
        == ExitCode.USAGE
    )
    line = capsys.readouterr().err
    assert r"'xx\n'" in line
    assert "(It is odd)" in line
    assert (
        report_error(OSError(errno.EBADF, "Bad file descriptor")) == ExitCode.INTERNAL
    )


def test_report_error_internal_has_traceback_if_requested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value, lines in (("", 1), ("1", 2)):
        monkeypatch.setenv(DEBUG_VARIABLE, value)
        assert report_error(ValueError("odd")) == ExitCode.INTERNAL
        text = capsys.readouterr().err
        assert len(text.splitlines()) == lines
        assert text.startswith("whisper-hailo: internal error (ValueError: odd)")
        assert ("\nValueError: odd\n" in text) == bool(value)
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    assert report_error(AudioError("it is broken")) == ExitCode.AUDIO
    assert capsys.readouterr().err == "whisper-hailo: it is broken\n"


def test_one_line_omits_middle_of_long_text() -> None:
    text = "a" * 300 + "b" * 300
    line = one_line(text, 105)
    assert line == "a" * 50 + " ... " + "b" * 50
    assert one_line(text, 600) == text
    assert len(one_line(text, 599)) in {598, 599}
