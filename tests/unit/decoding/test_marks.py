"""Punctuation that belongs to the word before or after it, mark by mark."""

from __future__ import annotations

import pytest

from tests.unit.spoken_words import word
from whisper_hailo.decoding.words import join_punctuation


def test_marks_join_across_what_was_joined_before() -> None:
    texts = [" (", " [", "a", "]", ")", ","]
    words = [word(text, (i,), float(i), i + 1.0, 0.5) for i, text in enumerate(texts)]
    joined = [word for word in join_punctuation(words, "([", ")],") if word.text]
    assert [(word.text, word.tokens) for word in joined] == [(" ( [a]),", (0, 1, 2, 3, 4, 5))]
    assert (joined[0].start_s, joined[0].end_s) == (2.0, 3.0)


def test_an_opening_mark_without_a_blank_is_no_opening_mark() -> None:
    words = [word(text, (i,)) for i, text in enumerate([" a", "(", "b"])]
    assert [word.text for word in join_punctuation(words, "(", "")] == [" a", "(", "b"]


def test_a_closing_mark_behind_a_blank_stays_alone() -> None:
    words = [word(text, (i,)) for i, text in enumerate([" a ", "."])]
    assert [word.text for word in join_punctuation(words, "", ".")] == [" a ", "."]


def test_a_closing_mark_with_no_word_before_it_stays() -> None:
    words = [word(text, (i,)) for i, text in enumerate([".", " a", "(", "."])]
    assert [word.text for word in join_punctuation(words, "(", ".")] == [".", " a", "(.", ""]
    assert join_punctuation([], "(", ".") == []
    assert join_punctuation(words[:1], ".", ".") == words[:1]


def test_an_opening_mark_with_no_word_behind_it_stays() -> None:
    words = [word(text, (i,)) for i, text in enumerate([" a", " ("])]
    assert join_punctuation(words, "(", ")") == words


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        ([" (", "a"], ["", " (a"]),
        ([" a", " (", "b"], [" a", "", " (b"]),
        ([" a", ".", " (", "b", ")"], [" a.", "", "", " (b)", ""]),
    ],
)
def test_marks_that_were_joined_are_left_without_text_and_tokens(
    texts: list[str], joined: list[str]
) -> None:
    words = join_punctuation([word(text, (i,)) for i, text in enumerate(texts)], "(", ".)")
    assert [one.text for one in words] == joined
    assert [bool(one.tokens) for one in words] == [bool(text) for text in joined]
    assert [token for one in words for token in one.tokens] == list(range(len(texts)))
