"""Languages by name and by code."""

from __future__ import annotations

from pathlib import Path

import pytest

import whisper_hailo
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.core.languages import (
    CODES_BY_NAME,
    language_code,
    language_name,
    similar_language,
)
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
        ("Deutsch", "de"),
        ("français", "fr"),
        ("Francais", "fr"),
        ("日本語", "ja"),
        ("हिन्दी", "hi"),
        ("Tieng Viet", "vi"),
        ("O'zbek", "uz"),
        ("de-DE", "de"),
        ("pt_BR", "pt"),
        ("zh-Hans", "zh"),
        ("zh-Hant-TW", "zh"),
        ("zh-yue-HK", "yue"),
        ("zh-yue", "yue"),
        ("nb-NO", "no"),
        ("iw", "he"),
        ("xx-YY", "xx-YY"),
        ("de-", "de-"),
        ("-", "-"),
        ("Klingon", "Klingon"),
        ("", ""),
    ],
)
def test_language_code_accepts_names_and_tags(given: str, code: str) -> None:
    assert language_code(given) == code
    assert DecodingOptions(language=given).language == code


def test_language_code_accepts_all_codes_of_whisper() -> None:
    codes = read_special_tokens(MICRO, MICRO / "tokenizer.json").languages
    assert len(codes) == 99
    for code in codes:
        assert language_code(code.upper()) == code


def test_codes_by_name_cover_all_codes_uniquely() -> None:
    codes = read_special_tokens(MICRO, MICRO / "tokenizer.json").languages
    assert {*CODES_BY_NAME.values()} >= {*codes}
    for name, code in CODES_BY_NAME.items():
        assert (
            language_code(name.upper() if name.upper().casefold() == name else name)
            == code
        )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Gernam", "German (de)"),
        ("portugese", "Portuguese (pt)"),
        ("xx", None),
        ("Klingon", None),
    ],
)
def test_similar_language_typo_returns_intended(given: str, meant: str | None) -> None:
    assert similar_language(given, ("de", "pt", "en")) == meant
    assert similar_language(given, ("en",)) is None


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "German"), ("zh", "Chinese"), ("haw", "Hawaiian"), ("xx", "Xx")],
)
def test_language_name_is_english(code: str, name: str) -> None:
    assert language_name(code) == name
