"""Function words by language, as breaks of subtitles and paragraphs look them up."""

from __future__ import annotations

import pytest

from whisper_hailo.core.languages import language_code
from whisper_hailo.text.break_points import (
    BOUND,
    CONJUNCTION,
    NEUTRAL,
    PREPOSITION,
    find_break_cost,
)
from whisper_hailo.text.function_words import (
    ABBREVIATIONS,
    FUNCTION_WORDS,
    NO_FUNCTION_WORDS,
)

LANGUAGES = sorted(FUNCTION_WORDS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_function_words_are_listed_by_a_code_of_whisper(language: str) -> None:
    """A list under another code would never be found."""
    assert language_code(language) == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_function_words_break_before_and_bind_to_the_next(language: str) -> None:
    """A list that is empty or swapped with its neighbour breaks between article and noun."""
    lists = FUNCTION_WORDS[language]
    for conjunction in lists.conjunctions - lists.binders:
        assert find_break_cost("x", conjunction, lists) <= CONJUNCTION
    only_prepositions = lists.prepositions - lists.conjunctions - lists.binders
    assert only_prepositions
    for preposition in only_prepositions:
        assert find_break_cost("x", preposition, lists) == PREPOSITION
    only_binders = lists.binders - lists.conjunctions - lists.prepositions
    assert only_binders
    for binder in only_binders:
        assert find_break_cost(binder, "x", lists) == BOUND


@pytest.mark.parametrize(
    ("language", "left", "right"),
    [("nl", "'t", "huis"), ("de", "Daß", "er")],
)
def test_function_words_with_an_apostrophe_or_capital_bind(
    language: str, left: str, right: str
) -> None:
    assert find_break_cost(left, right, FUNCTION_WORDS[language]) == BOUND


def test_function_words_of_other_languages_are_none() -> None:
    assert find_break_cost("the", "house", NO_FUNCTION_WORDS) == NEUTRAL


@pytest.mark.parametrize("word", ["dr", "prof", "bzw", "sra", "dec"])
def test_abbreviations_end_no_sentence(word: str) -> None:
    assert word in ABBREVIATIONS
    cost = find_break_cost(f"{word}.", "x", NO_FUNCTION_WORDS)
    assert cost == BOUND
