"""Scores of texts, and OpenAI Whisper's normaliser that they depend on.

The normaliser is another project's package; the facts here, from OpenAI Whisper's
`test_normalizer.py`, must hold for any new version of it.
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
from whisper_hailo_lab.program import install_command
from whisper_hailo_lab.rates import (
    Score,
    confidence_interval,
    difference_interval,
    mean_rate,
    sum_scores,
)
from whisper_hailo_lab.score import normalise_text, score_file, score_texts

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8)


def edit_distance(reference: list[str], recognized: list[str]) -> int:
    """Return Levenshtein's distance, as textbooks compute it."""
    row = list(range(len(recognized) + 1))
    for i, expected_word in enumerate(reference, 1):
        diagonal = row[0]
        row[0] = i
        for j, word in enumerate(recognized, 1):
            deletion = row[j] + 1
            insertion = row[j - 1] + 1
            substitution = diagonal + (expected_word != word)
            diagonal = row[j]
            row[j] = min(deletion, insertion, substitution)
    return row[-1]


def test_score_file_counts_each_kind() -> None:
    words = score_file("one two three four", "one too three four five", "simple").words
    assert words == Score(substitutions=1, deletions=0, insertions=1, hits=3)
    assert words.errors == 2
    assert words.reference_count == 4
    assert words.rate == 0.5
    assert score_file("one two three", "one three", "simple").words == Score(
        deletions=1, hits=2
    )


def test_score_file_characters_include_blanks() -> None:
    characters = score_file("ab c", "abc", "simple").characters
    assert characters == Score(deletions=1, hits=3)
    assert characters.rate == 0.25


@settings(max_examples=50, deadline=None)
@given(reference=WORDS, hypothesis=WORDS)
def test_score_file_errors_equal_the_edit_distance(
    reference: list[str], hypothesis: list[str]
) -> None:
    words = score_file(" ".join(reference), " ".join(hypothesis), "simple").words
    assert words.errors == edit_distance(reference, hypothesis)
    assert words.reference_count == len(reference)
    assert words.hits + words.substitutions + words.insertions == len(hypothesis)


def test_score_file_simple_form_keeps_punctuation() -> None:
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


def test_score_file_line_ends_and_tabs_split_words() -> None:
    assert score_file("one\ntwo\tthree", "one two  three", "simple").words == Score(
        hits=3
    )


def test_normalise_text_of_german_uses_basic_rules() -> None:
    assert normalise_text("Größe: Zwölf!", "normalised", "de") == "größe zwölf"
    assert normalise_text("colour", "normalised", "de") == "colour"
    assert normalise_text("colour", "normalised", "en") == "color"


def test_score_file_of_chinese_counts_characters() -> None:
    words = score_file("你好世界", "你好时界", "normalised", "zh").words
    assert words == Score(substitutions=1, hits=3)


def test_score_file_empty_reference_counts_insertions() -> None:
    silent = score_file("", "", "simple")
    assert silent.words.rate == 0.0
    assert silent.characters.rate == 0.0
    invented = score_file(" ", "thank you", "simple")
    assert invented.words == Score(insertions=2)
    assert invented.characters == Score(insertions=9)
    assert invented.words.rate == math.inf
    assert score_file("Um.", "hello", "normalised").words == Score(insertions=1)


def test_score_file_empty_hypothesis_counts_deletions() -> None:
    lost = score_file("thank you", "", "simple")
    assert lost.words == Score(deletions=2)
    assert lost.characters == Score(deletions=9)
    assert lost.words.rate == 1.0


def test_score_texts_adds_counts_and_averages_rates() -> None:
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


def test_score_texts_without_files_is_zero() -> None:
    nothing = score_texts([])
    assert nothing.words == Score()
    assert nothing.words.rate == 0.0
    assert nothing.mean_wer == 0.0
    assert nothing.wer_interval() == (0.0, 0.0)
    assert sum_scores([]) == Score()
    assert mean_rate([Score(insertions=3)]) == 0.0


def test_confidence_interval_encloses_rate_and_follows_seed() -> None:
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


def test_difference_interval_draws_the_same_files() -> None:
    rng = np.random.default_rng(6)
    hard = rng.integers(0, 10, 100)  # files differ much more than systems do
    more = rng.integers(0, 2, 100)
    worse = [Score(substitutions=int(e), hits=int(20 - e)) for e in hard + more]
    better = [Score(substitutions=int(e), hits=int(20 - e)) for e in hard]
    low, high = difference_interval(worse, better, n_resamples=5_000)
    spread = more.std() / 20 / np.sqrt(len(more))
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.08)
    assert 0 < low < sum_scores(worse).rate - sum_scores(better).rate < high
    # Intervals of the two systems overlap.
    assert confidence_interval(worse)[0] < confidence_interval(better)[1]
    assert difference_interval(better, better) == (0.0, 0.0)
    assert difference_interval([], []) == (0.0, 0.0)
    with pytest.raises(OptionError):
        difference_interval(worse, better[1:])


def test_confidence_interval_of_equal_files_is_a_point() -> None:
    assert confidence_interval([Score(deletions=1, hits=3)] * 5) == (0.25, 0.25)


def test_confidence_interval_without_reference_is_infinite() -> None:
    assert confidence_interval([Score(insertions=2)]) == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("level", "n_resamples"), [(0.0, 10), (1.0, 10), (-0.1, 10), (1.1, 10), (0.95, 0)]
)
def test_confidence_interval_impossible_settings_raise(
    level: float, n_resamples: int
) -> None:
    with pytest.raises(OptionError, match="level"):
        confidence_interval([Score(hits=1)], level=level, n_resamples=n_resamples)


def test_normalise_text_unknown_form_raises() -> None:
    with pytest.raises(OptionError, match="'strict'"):
        normalise_text("a", "strict")  # type: ignore[arg-type]


@pytest.mark.parametrize("package", ["jiwer", "whisper_normalizer"])
def test_score_file_missing_package_names_the_extra(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    module.load_normaliser.cache_clear()
    for form in ("normalised", "simple"):
        with pytest.raises(OptionError, match=re.escape(install_command("bench"))):
            score_file("a", "b", form)  # type: ignore[arg-type]


def test_load_normaliser_has_no_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Warnings are issued when modules are compiled.
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
@given(reference=TEXTS, hypothesis=TEXTS)
def test_score_file_equals_jiwer(reference: str, hypothesis: str) -> None:
    """Any texts, also punctuation and numbers alone; jiwer does not accept an empty reference."""
    for form in ("simple", "normalised"):
        file = score_file(reference, hypothesis, form)  # type: ignore[arg-type]
        reference_text = normalise_text(reference, form)
        hypothesis_text = normalise_text(hypothesis, form)  # type: ignore[arg-type]
        if not reference_text:
            assert file.words == Score(insertions=len(hypothesis_text.split()))
            continue
        assert file.words.rate == pytest.approx(
            jiwer.wer(reference_text, hypothesis_text)
        )
        assert file.characters.rate == pytest.approx(
            jiwer.cer(reference_text, hypothesis_text)
        )
        alignment = jiwer.process_words(reference_text, hypothesis_text)
        assert file.words == Score(
            alignment.substitutions,
            alignment.deletions,
            alignment.insertions,
            alignment.hits,
        )


@settings(max_examples=30, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS.filter(bool), TEXTS), min_size=1, max_size=5))
def test_score_texts_rate_equals_jiwer(pairs: list[tuple[str, str]]) -> None:
    result = score_texts(pairs, "simple")
    references = [r.lower() for r, _ in pairs]
    hypotheses = [h.lower() for _, h in pairs]
    assert result.words.rate == pytest.approx(jiwer.wer(references, hypotheses))
    assert result.characters.rate == pytest.approx(jiwer.cer(references, hypotheses))


def test_score_texts_simple_form_equals_the_study_s() -> None:
    """Lower-cased and stripped, with punctuation; every file's rate has the same weight."""
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
def test_normalise_text_of_english_equals_openai_s(facts: dict[str, str]) -> None:
    assert {text: normalise_text(text, "normalised", "en") for text in facts} == facts


def test_normalise_text_is_idempotent() -> None:
    for facts in (SPELLING, NORMALISED):
        for text in facts.values():
            assert normalise_text(text, "normalised", "en") == text


def test_normalise_text_of_german_drops_marks_and_brackets() -> None:
    facts = {
        "Äpfel & Öl!": "äpfel öl",
        "<unk> Straße (leise)": "straße",
        "It's 3,5": "it s 3 5",
    }
    assert {text: normalise_text(text, "normalised", "de") for text in facts} == facts
