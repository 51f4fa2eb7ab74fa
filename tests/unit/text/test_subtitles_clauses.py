"""Long texts as cues: whole clauses, lines that fit, no leftovers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisper_hailo.core.types import Word
from whisper_hailo.text.subtitles import split_clauses, split_lines


def said(text: str) -> list[Word]:
    return [Word(at, at + 1.0, f" {word}", 1.0) for at, word in enumerate(text.split())]


def cues(text: str, width: int = 42, count: int = 2) -> list[list[str]]:
    return [
        split_lines(group, width) for group in split_clauses(said(text), width, count)
    ]


def test_what_fits_one_line_has_one() -> None:
    assert cues("Good evening, everybody.") == [["Good evening, everybody."]]


def test_line_may_be_as_long_as_is_allowed() -> None:
    assert cues("four fives", width=10) == [["four fives"]]
    assert cues("four fives", width=9) == [["four", "fives"]]


def test_two_lines_are_parted_at_a_clause_or_in_the_middle() -> None:
    assert cues("When the train was late again, we took the bus to town.") == [
        ["When the train was late again,", "we took the bus to town."]
    ]
    assert cues("one two three four five six seven eight nine ten eleven") == [
        ["one two three four five six", "seven eight nine ten eleven"]
    ]


def test_cue_ends_behind_a_comma_sooner_than_it_is_full() -> None:
    text = "We took the bus to the town, and there was nobody at the station to meet us that night."
    first, *_ = split_clauses(said(text), 20, 2)
    assert first[-1].text == " town,"


def test_long_text_is_parted_where_a_sentence_or_a_clause_ends() -> None:
    text = (
        "The first sentence of this speech is neither short nor long. The second one has a comma "
        "somewhere, and it goes on for quite a while after that, as such sentences do."
    )
    first, *others = [" ".join(cue) for cue in cues(text)]
    assert first.endswith("short nor long.")
    assert [cue[-1] for cue in others] == [",", "."]


def test_word_longer_than_a_line_has_one_of_its_own() -> None:
    assert cues("a Donaudampfschifffahrtsgesellschaft b", width=10) == [
        ["a", "Donaudampfschifffahrtsgesellschaft"], ["b"],
    ]  # fmt: skip
    assert cues("a b Donaudampfschifffahrt", width=10) == [
        ["a b", "Donaudampfschifffahrt"]
    ]


def test_mark_ends_a_clause_inside_quotes_and_brackets_too() -> None:
    for ending in ('"', "'", "»", "”", ")", "]", '")'):
        said_first = f"We left.{ending}"
        assert cues(f"{said_first} It had gone on to town", width=25) == [
            [said_first, "It had gone on to town"]
        ]


@pytest.mark.parametrize("mark", ["。", "！", "？", "、", "，", "；", "：", "…", "—"])  # noqa: RUF001
def test_mark_of_any_script_ends_a_clause(mark: str) -> None:
    """Six of eight words fit; the cue ends behind the mark, which is later than half of them."""
    words = [
        Word(at, at + 1.0, text, 1.0)
        for at, text in enumerate(["い"] * 3 + [f"ろ{mark}"])
    ]
    words += [Word(at, at + 1.0, "は", 1.0) for at in range(4, 8)]
    first, second = split_clauses(words, 7, 1)
    assert (len(first), len(second)) == (4, 4)


def test_what_fits_is_one_cue_wherever_its_clauses_end() -> None:
    assert cues("Good evening, everybody") == [["Good evening, everybody"]]


def test_clause_may_be_a_short_line_above_a_longest_one() -> None:
    assert cues("a, bbbb cccc dd", width=12) == [["a,", "bbbb cccc dd"]]


@pytest.mark.parametrize(
    ("text", "width", "n_words"),
    [
        ("aa bb, cc dd ee ff", 12, [2, 4]),  # four words fit: two of them are half
        ("aa, bb cc dd ee ff", 12, [4, 2]),  # and one is less
        ("aa bb, cc dd", 9, [2, 2]),  # three fit: two are the first half or more
        ("aa, bb cc dd", 9, [3, 1]),
        # A sentence is more than a clause behind it.
        ("aa bb. cc, dd ee ff", 13, [2, 4]),
        ("aa bb, cc. dd ee ff", 13, [3, 3]),
    ],
)
def test_cue_that_ends_early_is_half_of_what_fits_or_more(
    text: str, width: int, n_words: list[int]
) -> None:
    assert [len(cue) for cue in split_clauses(said(text), width, 1)] == n_words


texts = st.lists(st.text("abcdefgh,.", min_size=1, max_size=12), max_size=60).map(
    " ".join
)


@given(texts, st.integers(12, 42), st.integers(1, 3))
def test_no_word_is_lost_and_everything_fits(text: str, width: int, count: int) -> None:
    groups = list(split_clauses(said(text), width, count))
    assert [word for group in groups for word in group] == said(text)
    for group in groups:
        set_lines = split_lines(group, width)
        assert len(set_lines) <= count
        assert all(len(line) <= width for line in set_lines)
        assert " ".join(set_lines) == "".join(word.text for word in group).strip()
