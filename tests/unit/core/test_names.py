import pytest

from whisper_hailo.core.errors import display_path


@pytest.mark.parametrize("name", ["a.wav", "日本語 ñ.wav", "/deep/er/two blanks  .wav", "👩.wav"])
def test_plain_names_are_shown_as_they_are(name: str) -> None:
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
def test_others_are_quoted(name: str, quoted: str) -> None:
    assert display_path(name) == quoted
