"""Exit codes as `docs/errors.md` has them: scripts go by them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whisper_hailo.core import errors
from whisper_hailo.core.errors import ExitCode, WhisperHailoError, display_path

DOCUMENT = Path(__file__).parents[3] / "docs" / "errors.md"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("OptionError", 2),
        ("AudioError", 3),
        ("ModelError", 4),
        ("ShapeError", 4),
        ("HefError", 4),
        ("TokenizerError", 4),
        ("HubError", 5),
        ("DeviceError", 6),
        ("NoBindingError", 6),
        ("BindingMismatchError", 6),
        ("NoDeviceError", 6),
        ("DeviceBusyError", 6),
        ("WrongChipError", 6),
        ("DeviceTimeoutError", 6),
        ("DeviceLostError", 6),
        ("OutputError", 7),
        ("WhisperHailoError", 1),
    ],
)
def test_error_class_has_its_exit_code(name: str, code: int) -> None:
    assert getattr(errors, name)("what; do this").exit_code == code


def test_exit_codes_match_documented_table() -> None:
    kinds = {
        k
        for k, v in vars(errors).items()
        if isinstance(v, type) and k.endswith("Error")
    }
    assert len(kinds) == 19
    assert all(issubclass(getattr(errors, kind), WhisperHailoError) for kind in kinds)
    rows = re.findall(
        r"^\| (\d+) \| ([^|]+) \|", DOCUMENT.read_text(encoding="utf-8"), re.M
    )
    meaning = {int(code): what.strip() for code, what in rows}
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6, 7, 130]
    assert meaning[0] == "done"
    assert meaning[2] == "wrong usage"
    for code in ("AUDIO", "MODEL", "HUB", "DEVICE", "OUTPUT", "INTERRUPTED"):
        assert meaning[ExitCode[code].value] == code.lower()


@pytest.mark.parametrize(
    "name", ["a.wav", "日本語 ñ.wav", "/deep/er/two blanks  .wav", "👩.wav"]
)
def test_display_path_printable_name_is_unquoted(name: str) -> None:
    assert display_path(name) == name


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("", "''"),
        (" a", "' a'"),
        ("a\nb", r"'a\nb'"),
        ("\x1b[31m", r"'\x1b[31m'"),
        ("a\u202egnp.wav", r"'a\u202egnp.wav'"),
        ("\udcff.wav", r"'\udcff.wav'"),
    ],
)
def test_display_path_unprintable_name_is_quoted(name: str, quoted: str) -> None:
    assert display_path(name) == quoted
