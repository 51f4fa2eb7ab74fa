"""Languages by name and by code."""

from __future__ import annotations

from pathlib import Path

import pytest

import whisper_hailo
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.core.languages import language_code, similar_language
from whisper_hailo.decoding.options import DecodingOptions

MICRO = Path(whisper_hailo.__file__).parent / "assets" / "micro"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("German", "de"),
        ("german", "de"),
        ("DE", "de"),
        (" castilian ", "es"),
        ("Haitian Creole", "ht"),
        ("auto", "auto"),
        ("Auto", "auto"),
        (" AUTO ", "auto"),
        ("Klingon", "Klingon"),
        ("", ""),
    ],
)
def test_names_and_codes(given: str, code: str) -> None:
    assert language_code(given) == code
    assert DecodingOptions(language=given).language == code


def test_every_language_of_whisper_has_a_name() -> None:
    codes = read_special_tokens(MICRO, MICRO / "tokenizer.json").languages
    assert len(codes) == 99
    for code in codes:
        assert language_code(code.upper()) == code


@pytest.mark.parametrize(
    ("given", "meant"),
    [("Gernam", "German (de)"), ("portugese", "Portuguese (pt)"), ("xx", None), ("Klingon", None)],
)
def test_a_slip_is_told_what_was_meant(given: str, meant: str | None) -> None:
    assert similar_language(given, ("de", "pt", "en")) == meant
    assert similar_language(given, ("en",)) is None
