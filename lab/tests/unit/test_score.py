"""What the field's normaliser does to a text, as OpenAI Whisper's own tests state it.

The package that does it is not ours, but every word error rate stands on it: these are the facts
that a new version of it must keep. Facts from OpenAI Whisper's `test_normalizer.py`, by kind.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from pathlib import Path

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab import score as module
from whisper_hailo_lab.extras import install_command
from whisper_hailo_lab.rates import (
    Score,
    confidence_interval,
    difference_interval,
    mean_rate,
    sum_scores,
)
from whisper_hailo_lab.score import normalise_text, score_file, score_texts

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8)


def edit_distance(expected: list[str], recognized: list[str]) -> int:
    """Return Levenshtein's distance, as textbooks compute it."""
    row = list(range(len(recognized) + 1))
    for i, expected_word in enumerate(expected, 1):
        diagonal = row[0]
        row[0] = i
        for j, word in enumerate(recognized, 1):
            deletion = row[j] + 1
            insertion = row[j - 1] + 1
            substitution = diagonal + (expected_word != word)
            diagonal = row[j]
            row[j] = min(deletion, insertion, substitution)
    return row[-1]


def test_counts_of_each_kind() -> None:
    words = score_file("one two three four", "one too three four five", "simple").words
    assert words == Score(substitutions=1, deletions=0, insertions=1, hits=3)
    assert (words.errors, words.reference_count, words.rate) == (2, 4, 0.5)
    assert score_file("one two three", "one three", "simple").words == Score(
        deletions=1, hits=2
    )


def test_characters_count_blanks() -> None:
    characters = score_file("ab c", "abc", "simple").characters
    assert characters == Score(deletions=1, hits=3)
    assert characters.rate == 0.25


@settings(max_examples=50, deadline=None)
@given(expected=WORDS, heard=WORDS)
def test_words_agree_with_the_edit_distance(
    expected: list[str], heard: list[str]
) -> None:
    words = score_file(" ".join(expected), " ".join(heard), "simple").words
    assert words.errors == edit_distance(expected, heard)
    assert words.reference_count == len(expected)
    assert words.hits + words.substitutions + words.insertions == len(heard)


def test_simple_keeps_punctuation_and_normalised_does_not() -> None:
    pair = (
        "Mr. Smith's colour, um, costs twenty-five dollars!",
        "mister smith's color costs $25",
    )
    assert score_file(*pair, "normalised").words.errors == 0
    assert score_file(*pair, "simple").words.errors == 5
    assert normalise_text("  Hello, World!\n", "simple") == "hello, world!"
    wide = score_file("one  two", "one two", "simple")
    assert (wide.words.errors, wide.characters.deletions) == (0, 1), (
        "blanks are characters"
    )


def test_line_ends_and_tabs_part_words() -> None:
    assert score_file("one\ntwo\tthree", "one two  three", "simple").words == Score(
        hits=3
    )


def test_other_languages_use_the_basic_normaliser() -> None:
    assert normalise_text("Größe: Zwölf!", "normalised", "de") == "größe zwölf"
    assert normalise_text("colour", "normalised", "de") == "colour"
    assert normalise_text("colour", "normalised", "en") == "color"


def test_every_character_is_a_word_where_nobody_writes_blanks() -> None:
    words = score_file("你好世界", "你好时界", "normalised", "zh").words
    assert words == Score(substitutions=1, hits=3)


def test_empty_reference() -> None:
    silent = score_file("", "", "simple")
    assert (silent.words.rate, silent.characters.rate) == (0.0, 0.0)
    invented = score_file(" ", "thank you", "simple")
    assert invented.words == Score(insertions=2)
    assert invented.characters == Score(insertions=9)
    assert invented.words.rate == math.inf
    assert score_file("Um.", "hello", "normalised").words == Score(insertions=1)


def test_empty_hypothesis() -> None:
    lost = score_file("thank you", "", "simple")
    assert (lost.words, lost.characters) == (Score(deletions=2), Score(deletions=9))
    assert lost.words.rate == 1.0


def test_corpus_adds_counts_and_mean_averages_rates() -> None:
    result = score_texts(
        [("a b c d", "a b c d"), ("a b", "a x"), ("", "hm hm hm")], "simple"
    )
    assert result.words == Score(substitutions=1, insertions=3, hits=5)
    assert result.words.rate == pytest.approx(4 / 6)
    assert result.mean_wer == pytest.approx((0 + 1 / 2) / 2)
    assert result.characters == Score(substitutions=1, insertions=8, hits=9)
    assert result.mean_cer == pytest.approx((0 + 1 / 3) / 2)
    assert result.files[1].reference == "a b"
    assert result.files[1].hypothesis == "a x"


def test_nothing_to_score() -> None:
    nothing = score_texts([])
    assert (nothing.words, nothing.words.rate, nothing.mean_wer) == (Score(), 0.0, 0.0)
    assert nothing.wer_interval() == (0.0, 0.0)
    assert sum_scores([]) == Score()
    assert mean_rate([Score(insertions=3)]) == 0.0


def test_interval_encloses_the_rate_and_follows_the_seed() -> None:
    rng = np.random.default_rng(5)
    errors = rng.binomial(20, 0.1, 200)
    scores = [Score(substitutions=int(e), hits=int(20 - e)) for e in errors]
    rate = sum_scores(scores).rate
    spread = errors.std() / 20 / np.sqrt(len(errors))
    low, high = confidence_interval(scores, seed=1, n_resamples=5_000)
    assert rate - low == pytest.approx(1.96 * spread, rel=0.08)
    assert high - rate == pytest.approx(1.96 * spread, rel=0.08)
    assert confidence_interval(scores, seed=1, n_resamples=5_000) == (low, high)
    assert confidence_interval(scores, seed=2, n_resamples=5_000) != (low, high)
    narrow = confidence_interval(scores, level=0.5, seed=1)
    assert low < narrow[0] < narrow[1] < high


def test_interval_of_difference_draws_same_files_on_both_sides() -> None:
    rng = np.random.default_rng(6)
    hard = rng.integers(0, 10, 100)  # files differ much more than systems do
    more = rng.integers(0, 2, 100)
    worse = [Score(substitutions=int(e), hits=int(20 - e)) for e in hard + more]
    better = [Score(substitutions=int(e), hits=int(20 - e)) for e in hard]
    low, high = difference_interval(worse, better, n_resamples=5_000)
    spread = more.std() / 20 / np.sqrt(len(more))
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.08)
    assert 0 < low < sum_scores(worse).rate - sum_scores(better).rate < high
    assert confidence_interval(worse)[0] < confidence_interval(better)[1]  # two hide it
    assert difference_interval(better, better) == (0.0, 0.0)
    assert difference_interval([], []) == (0.0, 0.0)
    with pytest.raises(OptionError, match="same files"):
        difference_interval(worse, better[1:])


def test_interval_of_equal_files_is_a_point() -> None:
    assert confidence_interval([Score(deletions=1, hits=3)] * 5) == (0.25, 0.25)


def test_interval_without_any_reference() -> None:
    assert confidence_interval([Score(insertions=2)]) == (math.inf, math.inf)


@pytest.mark.parametrize(("level", "n_resamples"), [(0.0, 10), (1.0, 10), (0.95, 0)])
def test_interval_refuses_impossible_settings(level: float, n_resamples: int) -> None:
    with pytest.raises(OptionError, match="level"):
        confidence_interval([Score(hits=1)], level=level, n_resamples=n_resamples)


def test_unknown_form_is_refused() -> None:
    with pytest.raises(OptionError, match="'strict'"):
        normalise_text("a", "strict")  # type: ignore[arg-type]


@pytest.mark.parametrize("package", ["jiwer", "whisper_normalizer"])
def test_missing_package_names_the_extra(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    module.load_normaliser.cache_clear()
    for form in ("normalised", "simple"):
        with pytest.raises(OptionError, match=re.escape(install_command("bench"))):
            score_file("a", "b", form)  # type: ignore[arg-type]


def test_loading_the_normaliser_warns_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Warnings come when compiling.
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in [name for name in sys.modules if name.startswith("whisper_normalizer")]:
        monkeypatch.delitem(sys.modules, name)
    module.load_normaliser.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        normalise_text("a", "normalised")
    assert caught == []
    assert any("whisper_normalizer" in str(path) for path in tmp_path.rglob("*.pyc"))


TEXTS = st.lists(
    st.sampled_from(["a", "bc", "bc,", "it's", "42", "four", "um", "...", "A"]),
    max_size=10,
).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(expected=TEXTS, heard=TEXTS)
def test_counts_and_rates_are_jiwers(expected: str, heard: str) -> None:
    """On any texts, punctuation-only and numbers among them; jiwer takes no empty reference."""
    for form in ("simple", "normalised"):
        file = score_file(expected, heard, form)  # type: ignore[arg-type]
        left = normalise_text(expected, form)
        right = normalise_text(heard, form)  # type: ignore[arg-type]
        if not left:
            assert file.words == Score(insertions=len(right.split()))
            continue
        assert file.words.rate == pytest.approx(jiwer.wer(left, right))
        assert file.characters.rate == pytest.approx(jiwer.cer(left, right))
        found = jiwer.process_words(left, right)
        assert file.words == Score(
            found.substitutions, found.deletions, found.insertions, found.hits
        )


@settings(max_examples=30, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS.filter(bool), TEXTS), min_size=1, max_size=5))
def test_corpus_rate_is_jiwers_over_all_files(pairs: list[tuple[str, str]]) -> None:
    result = score_texts(pairs, "simple")
    references = [r.lower() for r, _ in pairs]
    hypotheses = [h.lower() for _, h in pairs]
    assert result.words.rate == pytest.approx(jiwer.wer(references, hypotheses))
    assert result.characters.rate == pytest.approx(jiwer.cer(references, hypotheses))


def test_studys_arithmetic() -> None:
    """Lower-cased and stripped, punctuation an error, every file's rate counted alike."""
    pairs = [
        ("HE HOPED THERE WOULD BE STEW", "He hoped there would be stew,"),  # 1 of 6
        ("STUFF IT INTO YOU", "Stuff it into you."),  # 1 of 4
        ("HELLO", "Hello? Hello?"),  # 2 of 1: a rate above 100 %
    ]
    result = score_texts(pairs, "simple")
    assert [file.words.rate for file in result.files] == pytest.approx(
        [1 / 6, 1 / 4, 2.0]
    )
    assert result.mean_wer == pytest.approx((1 / 6 + 1 / 4 + 2.0) / 3)
    assert result.mean_cer == pytest.approx((1 / 28 + 1 / 17 + 8 / 5) / 3)
    assert score_texts(pairs).words == Score(insertions=1, hits=11)


NUMBERS = {
    "two": "2",
    "thirty one": "31",
    "five twenty four": "524",
    "nineteen ninety nine": "1999",
    "twenty nineteen": "2019",
    "two double o eight": "2008",
    "forty three thousand two hundred and sixty": "43260",
    "two point five million": "2500000",
    "four point two billions": "4200000000s",
    "three and a half million": "3500000",
    "minus 500": "-500",
    "positive twenty thousand": "+20000",
    "fourteen point 4": "14.4",
    "3 point 14": "3.14",
    "3 14": "3 14",
}
DIGITS_BY_NAME = {
    "nine one one": "911",
    "double oh seven": "007",
    "one triple oh one": "10001",
}
ORDINALS_AND_YEARS = {
    "nineteen fifties": "1950s",
    "july third twenty twenty": "july 3rd 2020",
    "thirty three thousand and three hundred and thirty third": "33333rd",
    "two thousandth": "2000th",
    "10 th": "10th",
}
MONEY_AND_SHARES = {
    "200 thousand dollars": "$200000",
    "€52.4 million": "€52400000",
    "£77 thousands": "£77000s",
    "two dollars and seventy cents": "$2.70",
    "three euros and sixty five cents": "€3.65",
    "forty eight and a half dollars": "$48.5",
    "$0.36": "¢36",
    "3 cents": "¢3",
    "seventy six per cent": "76%",
}
SPELLING = {
    "mobilisation": "mobilization",
    "cancelation": "cancellation",
    "The colour of the theatre": "the color of the theater",
}
NORMALISED = {
    "Let's": "let us",
    "he's like": "he is like",
    "she's been like": "she has been like",
    "10km": "10 km",
    "RC232": "rc 232",
    "b747": "b 747",
    "Mr. Park visited Assoc. Prof. Kim Jr.": "mister park visited associate professor kim junior",
    "[applause] Um, hmm, yes (inaudible).": "yes",
    "naïve façade": "naive facade",
}


@pytest.mark.parametrize(
    "facts",
    [
        NUMBERS,
        DIGITS_BY_NAME,
        ORDINALS_AND_YEARS,
        MONEY_AND_SHARES,
        SPELLING,
        NORMALISED,
    ],
    ids=["numbers", "digits", "ordinals", "money", "spelling", "texts"],
)
def test_english(facts: dict[str, str]) -> None:
    assert {text: normalise_text(text, "normalised", "en") for text in facts} == facts


def test_normalised_text_stays_as_it_is() -> None:
    for facts in (SPELLING, NORMALISED):
        for text in facts.values():
            assert normalise_text(text, "normalised", "en") == text


def test_other_languages_lose_marks_and_brackets_alone() -> None:
    facts = {
        "Äpfel & Öl!": "äpfel öl",
        "<unk> Straße (leise)": "straße",
        "It's 3,5": "it s 3 5",
    }
    assert {text: normalise_text(text, "normalised", "de") for text in facts} == facts
