"""What an utterance is to say: one to four sentences of one language, some with a translation."""

from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Literal

from lab.training.text.grammar import Grammar, Split, canonical, draw_sentence, split_of
from lab.training.text.lexicon import ENGLISH, GERMAN
from lab.training.text.phrases import PAIRS, TABLE

Kind = Literal["en", "de", "phrases"]
KINDS: dict[Kind, float] = {"en": 0.68, "de": 0.18, "phrases": 0.14}
"""Share of each kind of utterance; `phrases` are German with an English translation."""
_N_SENTENCES = {1: 0.62, 2: 0.2, 3: 0.11, 4: 0.07}
MAX_WORDS = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """One utterance to be.

    Attributes:
        language: Whisper's code.
        sentences: texts, in order.
        translations: the English of each, or nothing if this is no translated kind.
    """

    language: str
    sentences: tuple[str, ...]
    translations: tuple[str, ...] = ()


@cache
def grammar_of(language: str, scrambled: float | None = None) -> Grammar:
    """Returns the grammar of `en` or `de`, with its own share of scrambled sentences or this."""
    lexicon = {"en": ENGLISH, "de": GERMAN}[language]
    return Grammar(
        lexicon if scrambled is None else replace(lexicon, scrambled_share=scrambled)
    )


def filled(german: str, english: str, rng: Random) -> tuple[str, str]:
    """Fills the slots of a phrase alike on both sides; first letters are raised."""
    for name, pairs in PAIRS.items():
        slot = "{" + name + "}"
        if slot in german:
            ours, theirs = rng.choice(pairs)
            german = german.replace(slot, ours)
            english = english.replace(slot, theirs)
    return german[0].upper() + german[1:], english[0].upper() + english[1:]


def draw_phrase(rng: Random, split: Split) -> tuple[str, str]:
    """Returns a German phrase of `split` and its English.

    Tested phrases are always filled ones: nobody can translate a fixed one that was never heard.
    """
    while True:
        german, english = rng.choice(TABLE)
        if split == "test" and "{" not in german:
            continue
        phrase = filled(german, english, rng)
        if split_of(phrase[0]) == split:
            return phrase


def all_phrases() -> list[tuple[str, str]]:
    """Returns every pair that the table can give."""
    pairs = list(TABLE)
    for name, entries in PAIRS.items():
        slot = "{" + name + "}"
        pairs = [
            (german.replace(slot, ours), english.replace(slot, theirs))
            for german, english in pairs
            for ours, theirs in (entries if slot in german else [("", "")])
        ]
    return [(de[0].upper() + de[1:], en[0].upper() + en[1:]) for de, en in pairs]


def draw_plan(
    rng: Random,
    split: Split,
    kinds: dict[Kind, float] | None = None,
    scrambled: float | None = None,
) -> Plan:
    """Returns the next utterance of `split`, of at most `MAX_WORDS` words.

    Args:
        rng: source of chance.
        split: which sentences may occur.
        kinds: shares of the kinds, `KINDS` if not given.
        scrambled: share of sentences that are words in any order, the lexicon's if not given.
    """
    shares = kinds or KINDS
    (kind,) = rng.choices(list(shares), list(shares.values()))
    while True:
        (n_sentences,) = rng.choices(list(_N_SENTENCES), list(_N_SENTENCES.values()))
        if kind == "phrases":
            pairs = [draw_phrase(rng, split) for _ in range(n_sentences)]
            plan = Plan(
                "de", tuple(de for de, _ in pairs), tuple(en for _, en in pairs)
            )
        else:
            grammar = grammar_of(kind, scrambled)
            plan = Plan(
                kind,
                tuple(draw_sentence(grammar, rng, split) for _ in range(n_sentences)),
            )
        if sum(len(text.split()) for text in plan.sentences) <= MAX_WORDS:
            return plan


def words_of(language: str) -> set[str]:
    """Returns every word that utterances of a language can hold, lower-cased."""
    words = grammar_of(language).words()
    if language == "de":
        # What templates glue together: `dreihundert`, `zweitausend`, `ersten`.
        words |= {
            digit + end
            for digit in GERMAN.slots["digit"]
            for end in ("hundert", "tausend")
        }
        words |= {ordinal + "n" for ordinal in GERMAN.slots["ordinal"]}
        for german, _ in all_phrases():
            words |= set(canonical(german).split())
    return words
