"""What the field's normaliser does to a text, as OpenAI Whisper's own tests state it.

The package that does it is not ours, but every word error rate stands on it: these are the facts
that a new version of it must keep. Facts from OpenAI Whisper's `test_normalizer.py`, by kind.
"""

from __future__ import annotations

import pytest

from whisper_hailo_lab.score import normalise

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
TEXTS = {
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
    [NUMBERS, DIGITS_BY_NAME, ORDINALS_AND_YEARS, MONEY_AND_SHARES, SPELLING, TEXTS],
    ids=["numbers", "digits", "ordinals", "money", "spelling", "texts"],
)
def test_english(facts: dict[str, str]) -> None:
    assert {text: normalise(text, "normalised", "en") for text in facts} == facts


def test_a_normalised_text_stays_as_it_is() -> None:
    for facts in (SPELLING, TEXTS):
        for text in facts.values():
            assert normalise(text, "normalised", "en") == text


def test_other_languages_lose_marks_and_brackets_alone() -> None:
    facts = {"Äpfel & Öl!": "äpfel öl", "<unk> Straße (leise)": "straße", "It's 3,5": "it s 3 5"}
    assert {text: normalise(text, "normalised", "de") for text in facts} == facts
