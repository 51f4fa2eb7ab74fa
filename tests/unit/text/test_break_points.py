"""Where subtitles may break: phrases, and the cost of a break after each word."""

from __future__ import annotations

import pytest

from tests.fakes.words import JAPANESE_TEXT, THAI_TEXT, speak
from whisper_hailo.text.break_points import (
    BOUND,
    CLAUSE,
    CONJUNCTION,
    NEUTRAL,
    PREPOSITION,
    SENTENCE,
    display_width,
    find_break_cost,
    is_latin,
    may_split,
    split_units,
)
from whisper_hailo.text.function_words import FUNCTION_WORDS


@pytest.mark.parametrize(
    ("left", "right", "cost"),
    [
        ("end.", "The", SENTENCE),
        ('end."', "The", SENTENCE),
        ("world,", "and", CLAUSE),
        ("world", "and", CONJUNCTION),
        ("lines", "on", PREPOSITION),
        ("old", "house", NEUTRAL),
        ("the", "house", BOUND),
        ("of", "paper", BOUND),
        ("Dr.", "Watson", BOUND),
        ("J.", "Bach", BOUND),
        ("I.", "Then", SENTENCE),
        ("Johannes", "Gutenberg", BOUND),
        ("42", "lines", BOUND),
    ],
)
def test_find_break_cost_ranks_places(left: str, right: str, cost: float) -> None:
    assert find_break_cost(left, right, FUNCTION_WORDS["en"]) == cost


def test_split_units_of_japanese_and_thai_are_phrases() -> None:
    japanese = [
        unit.text for unit in split_units(speak(JAPANESE_TEXT, "ja").words, "ja")
    ]
    assert "公園へ" in japanese
    thai = [unit.text for unit in split_units(speak(THAI_TEXT, "th").words, "th")]
    assert 1 < len(thai) < len(THAI_TEXT) / 2


def test_split_units_of_traditional_chinese_are_phrases() -> None:
    text = "以投資者利益最大化為出發點"
    phrases = [unit.text for unit in split_units(speak(text, "zh").words, "zh")]
    assert "".join(phrases) == text
    assert "出發點" in phrases


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("你好", 4), ("e\u0301", 1), ("\uff41", 2), ("กำ", 2), ("", 0)],
)
def test_display_width_counts_terminal_columns(text: str, columns: int) -> None:
    assert display_width(text) == columns


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Good morning", True), ("你好 a", False), ("ab你好", False), ("12", False)],
)
def test_is_latin_needs_a_majority_of_ascii(text: str, expected: bool) -> None:
    assert is_latin(text) is expected


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        ("你好", 1, True),
        ("ab", 1, False),
        ("1,000", 2, False),
        ("年1", 1, True),
        ("好。", 1, False),
        ("「好", 1, False),
        ("เก", 1, False),
        ("กะ", 1, False),
    ],
)
def test_may_split_spares_numbers_words_and_syllables(
    text: str, index: int, expected: bool
) -> None:
    assert may_split(text, index) is expected
