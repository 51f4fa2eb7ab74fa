"""Generated text: vocabulary, form, and the split that keeps test sentences out of training."""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from lab.training.text.grammar import (
    MAX_WORDS,
    Grammar,
    canonical,
    draw_sentence,
    split_of,
    vowel_article,
)
from lab.training.text.lexicon import ENGLISH, GERMAN
from lab.training.text.phrases import PAIRS, TABLE
from lab.training.text.plans import MAX_WORDS as LONGEST_PLAN
from lab.training.text.plans import all_phrases, draw_plan, filled, grammar_of, words_of


def test_grammar_has_several_hundred_words() -> None:
    assert len(Grammar().words()) >= 900


def test_grammar_of_one_seed_gives_equal_sentences() -> None:
    first = [Grammar().sentence(Random(3)) for _ in range(3)]
    assert first == [Grammar().sentence(Random(3)) for _ in range(3)]


def test_grammar_sentences_are_well_formed() -> None:
    grammar = Grammar()
    rng = Random(5)
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
def test_vowel_article_follows_the_next_sound(text: str, expected: str) -> None:
    assert vowel_article(text) == expected


def test_split_of_ignores_case_and_marks() -> None:
    assert canonical("Good morning, Emma!") == "good morning emma"
    assert split_of("Is it warm?") == split_of("is it warm")


def test_draw_sentence_belongs_to_the_split() -> None:
    grammar = Grammar()
    rng = Random(11)
    trained = {canonical(draw_sentence(grammar, rng, "train")) for _ in range(500)}
    tested = {canonical(draw_sentence(grammar, rng, "test")) for _ in range(100)}
    assert not trained & tested


def spoken_words(language: str, n_sentences: int) -> set[str]:
    grammar = grammar_of(language)
    rng = Random(8)
    texts = [grammar.sentence(rng) for _ in range(n_sentences)]
    return {word for text in texts for word in canonical(text).split()}


@pytest.mark.slow
def test_grammar_draws_thousands_of_words() -> None:
    assert len(spoken_words("en", 15_000)) >= 2000
    assert len(spoken_words("de", 5_000)) >= 500


def test_grammar_words_include_every_drawn_word() -> None:
    for language in ("en", "de"):
        assert spoken_words(language, 3000) <= words_of(language)


def test_grammar_sentences_have_1_to_40_words() -> None:
    grammar = Grammar(ENGLISH)
    rng = Random(4)
    lengths = {len(grammar.sentence(rng).split()) for _ in range(6000)}
    assert min(lengths) == 1
    assert 32 <= max(lengths) <= 40


def test_grammar_sentences_equal_the_recorded_hash() -> None:
    grammar = Grammar()
    rng = Random("gold")
    drawn = "\n".join(grammar.sentence(rng) for _ in range(3000))
    assert (
        hashlib.sha256(drawn.encode())
        .hexdigest()
        .startswith("ff86eda191a059ac7d2f84d4")
    )


def test_german_grammar_has_umlauts_and_capital_nouns() -> None:
    grammar = Grammar(GERMAN)
    rng = Random(6)
    text = " ".join(grammar.sentence(rng) for _ in range(500))
    assert set("äöüß") <= set(text)
    assert " Tisch" in text
    assert " tisch" not in text


def test_phrase_table_is_large_with_equal_slots() -> None:
    assert len({german for german, _ in TABLE}) >= 150
    pairs = all_phrases()
    assert len({german for german, _ in pairs}) == len(pairs)
    assert not [pair for pair in pairs if "{" in "".join(pair)]
    for german, english in TABLE:
        assert [name for name in PAIRS if "{" + name + "}" in german] == [
            name for name in PAIRS if "{" + name + "}" in english
        ]


def test_filled_uses_one_name_in_both_languages() -> None:
    german, english = filled(
        "Guten Morgen, {name}.", "Good morning, {name}.", Random(1)
    )
    assert german.removeprefix("Guten Morgen, ") == english.removeprefix(
        "Good morning, "
    )


def test_draw_plan_keeps_to_its_split() -> None:
    for split in ("train", "test"):
        rng = Random(9)
        plans = [draw_plan(rng, split) for _ in range(300)]  # type: ignore[arg-type]
        assert {split_of(text) for plan in plans for text in plan.sentences} == {split}
        assert {plan.language for plan in plans} == {"en", "de"}
        assert {len(plan.sentences) for plan in plans} == {1, 2, 3, 4}
        longest = max(len(" ".join(plan.sentences).split()) for plan in plans)
        assert longest <= LONGEST_PLAN


def test_draw_plan_of_test_has_filled_phrases_only() -> None:
    rng = Random(3)
    drawn = [draw_plan(rng, "test", {"phrases": 1.0}) for _ in range(200)]
    fixed = {german for german, _ in TABLE if "{" not in german}
    assert not fixed & {text for plan in drawn for text in plan.sentences}
