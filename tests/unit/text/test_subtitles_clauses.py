"""Long texts as cues: whole clauses, lines that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisper_hailo.core.types import Word
from whisper_hailo.text.subtitles import split_clauses, split_lines


def make_words(text: str) -> list[Word]:
    return [Word(at, at + 1.0, f" {word}", 1.0) for at, word in enumerate(text.split())]


def split_cues(text: str, width: int = 42, count: int = 2) -> list[list[str]]:
    return [
        split_lines(group, width)
        for group in split_clauses(make_words(text), width, count)
    ]


def test_split_lines_short_text_has_one_line() -> None:
    assert split_cues("Good evening, everybody.") == [["Good evening, everybody."]]


def test_split_lines_line_may_fill_the_width() -> None:
    assert split_cues("four fives", width=10) == [["four fives"]]
    assert split_cues("four fives", width=9) == [["four", "fives"]]


def test_split_lines_splits_at_a_clause_or_the_middle() -> None:
    assert split_cues("When the train was late again, we took the bus to town.") == [
        ["When the train was late again,", "we took the bus to town."]
    ]
    assert split_cues("one two three four five six seven eight nine ten eleven") == [
        ["one two three four five six", "seven eight nine ten eleven"]
    ]


def test_split_clauses_cue_ends_at_a_comma() -> None:
    text = "We took the bus to the town, and there was nobody at the station to meet us that night."
    first, *_ = split_clauses(make_words(text), 20, 2)
    assert first[-1].text == " town,"


def test_split_clauses_long_text_is_split_at_sentences() -> None:
    text = (
        "The first sentence of this speech is neither short nor long. The second one has a comma "
        "somewhere, and it goes on for quite a while after that, as such sentences do."
    )
    first, *others = [" ".join(cue) for cue in split_cues(text)]
    assert first.endswith("short nor long.")
    assert [cue[-1] for cue in others] == [",", "."]


def test_split_lines_long_word_has_its_own_line() -> None:
    assert split_cues("a Donaudampfschifffahrtsgesellschaft b", width=10) == [
        ["a", "Donaudampfschifffahrtsgesellschaft"],
        ["b"],
    ]
    assert split_cues("a b Donaudampfschifffahrt", width=10) == [
        ["a b", "Donaudampfschifffahrt"]
    ]


def test_split_clauses_mark_within_quotes_ends_a_clause() -> None:
    for ending in ('"', "'", "»", "”", ")", "]", '")'):
        first_line = f"We left.{ending}"
        assert split_cues(f"{first_line} It had gone on to town", width=25) == [
            [first_line, "It had gone on to town"]
        ]


@pytest.mark.parametrize("mark", ["。", "！", "？", "、", "，", "；", "：", "…", "—"])  # noqa: RUF001
def test_split_clauses_mark_of_any_script_ends_a_clause(mark: str) -> None:
    """Six of eight words fit; the cue ends after the fourth, which is more than half of six."""
    words = [
        Word(at, at + 1.0, text, 1.0)
        for at, text in enumerate(["い"] * 3 + [f"ろ{mark}"])
    ]
    words += [Word(at, at + 1.0, "は", 1.0) for at in range(4, 8)]
    first, second = split_clauses(words, 7, 1)
    assert len(first) == 4
    assert len(second) == 4


def test_split_lines_short_clause_may_precede_a_full_line() -> None:
    assert split_cues("a, bbbb cccc dd", width=12) == [["a,", "bbbb cccc dd"]]


@pytest.mark.parametrize(
    ("text", "width", "n_words"),
    [
        ("aa bb, cc dd ee ff", 12, [2, 4]),  # four words fit: two are half
        ("aa, bb cc dd ee ff", 12, [4, 2]),  # one is less than half
        ("aa bb, cc dd", 9, [2, 2]),  # three fit: two are more than half
        ("aa, bb cc dd", 9, [3, 1]),
        # The end of a sentence is preferred to a later clause.
        ("aa bb. cc, dd ee ff", 13, [2, 4]),
        ("aa bb, cc. dd ee ff", 13, [3, 3]),
    ],
)
def test_split_clauses_early_end_is_at_half_or_more(
    text: str, width: int, n_words: list[int]
) -> None:
    assert [len(cue) for cue in split_clauses(make_words(text), width, 1)] == n_words


texts = st.lists(st.text("abcdefgh,.", min_size=1, max_size=12), max_size=60).map(
    " ".join
)


@given(texts, st.integers(12, 42), st.integers(1, 3))
def test_split_clauses_random_words_fit_and_stay(
    text: str, width: int, count: int
) -> None:
    groups = list(split_clauses(make_words(text), width, count))
    assert [word for group in groups for word in group] == make_words(text)
    for group in groups:
        set_lines = split_lines(group, width)
        assert len(set_lines) <= count
        assert all(len(line) <= width for line in set_lines)
        assert " ".join(set_lines) == "".join(word.text for word in group).strip()
