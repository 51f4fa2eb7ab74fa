"""What becomes of an error nobody handled: a line, or the end that the user asked for."""

from __future__ import annotations

import errno

import pytest

from whisper_hailo.cli.report import report, was_interrupted
from whisper_hailo.core.errors import ExitCode, OptionError


def test_what_an_import_makes_of_ctrl_c_is_ctrl_c() -> None:
    # As pybind11's modules do it, and as our own code names a package that is not there.
    failed = ImportError("initialization failed")
    failed.__cause__ = KeyboardInterrupt()
    absent = OptionError("it is not installed")
    absent.__context__ = failed
    assert was_interrupted(failed)
    assert was_interrupted(absent)


def test_other_errors_are_errors() -> None:
    failed = ImportError("no module of that name")
    failed.__cause__ = OSError("disk")
    assert not was_interrupted(failed)
    assert not was_interrupted(OptionError("--window is 0"))


def test_what_the_system_has_against_a_path_is_told_by_the_path(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = OSError(errno.ENAMETOOLONG, "File name too long", "xx\n")
    assert report(long) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "whisper-hailo: 'xx\\n' cannot be used (File name too long); check the path\n"
    )
    assert report(OSError(errno.EBADF, "Bad file descriptor")) == ExitCode.INTERNAL
