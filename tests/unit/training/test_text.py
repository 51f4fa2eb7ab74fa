"""The generated text: vocabulary, form, and the split that keeps test sentences unheard."""

from random import Random

import pytest
from training.text.grammar import MAX_WORDS, Grammar, vowel_article
from training.text.sentences import canonical, draw_sentence, split_of


def test_the_grammar_has_several_hundred_words() -> None:
    assert len(Grammar().words()) >= 900


def test_the_same_seed_gives_the_same_sentences() -> None:
    first = [Grammar().sentence(Random(3)) for _ in range(3)]
    assert first == [Grammar().sentence(Random(3)) for _ in range(3)]


def test_sentences_are_cased_punctuated_and_whole() -> None:
    grammar, rng = Grammar(), Random(5)
    for _ in range(2000):
        text = grammar.sentence(rng)
        assert text[0].isupper()
        assert text[-1] in ".?"
        assert not set("{}:0123456789") & set(text)
        assert 1 <= len(text.split()) <= MAX_WORDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a apple and a pear", "an apple and a pear"),
        ("A old hat", "An old hat"),
        ("a university", "a university"),
        ("at a one", "at a one"),
    ],
)
def test_vowel_article(text: str, expected: str) -> None:
    assert vowel_article(text) == expected


def test_the_split_ignores_case_and_marks() -> None:
    assert canonical("Good morning, Emma!") == "good morning emma"
    assert split_of("Is it warm?") == split_of("is it warm")


def test_drawn_sentences_belong_to_the_split_asked_for() -> None:
    grammar, rng = Grammar(), Random(11)
    trained = {canonical(draw_sentence(grammar, rng, "train")) for _ in range(500)}
    tested = {canonical(draw_sentence(grammar, rng, "test")) for _ in range(100)}
    assert not trained & tested
