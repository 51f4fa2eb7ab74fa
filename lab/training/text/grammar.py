"""The random expansion of sentence templates over word lists.

A template is expanded from left to right until no brace is left, so rules may nest. In English `a`
before a vowel becomes `an`; the first letter is raised.
"""

import hashlib
import re
from random import Random
from typing import Literal

from lab.training.text.lexicon import FIRST_ENGLISH, Lexicon

MAX_WORDS = FIRST_ENGLISH.max_words
MAX_SCRAMBLED = 14
_SOUND_ALIKE_TEXT = (
    "to too two by buy bye son sun four for hour our no know their there they're one won right "
    "write sea see meet meat wood would new knew red read wait weight week weak pair pear sail "
    "sale tail tale eight ate flower flour be bee not knot hair hare deer dear mail male night "
    "knight piece peace plane plain road rode whole hole which witch break brake its it's aunt "
    "ant hi high or oar nose knows sent cent heel heal through threw saw sore sword soared "
    "court caught wax whacks steel steal past passed principal wear where storey story "
    "das dass man mann seid seit den denn war wahr mehr meer"
)
_SOUND_ALIKE = frozenset(_SOUND_ALIKE_TEXT.split())
"""Words that the sound alone does not spell: only sense tells them, so they are never scrambled."""
_SLOT = re.compile(r"\{(\w+)\}")
_VOWEL = re.compile(
    r"\b([Aa]) (?=[aeiouAEIO]|hon(?:or|est))(?!one\b|university|European|use|uni|ukulele)"
)
_WORD = re.compile(r"[a-zäöüß']+")
Split = Literal["train", "test"]
TEST_PERCENT = 4


def vowel_article(text: str) -> str:
    """Writes `a` before a vowel as `an`."""
    return _VOWEL.sub(r"\1n ", text)


class Grammar:
    """Draws sentences; the same `Random` state gives the same sentences.

    Args:
        lexicon: lists, rules and templates.
    """

    def __init__(self, lexicon: Lexicon = FIRST_ENGLISH) -> None:
        self._lexicon = lexicon
        self._slots = lexicon.slots
        self._templates = [
            (template, lexicon.weights.get(topic, 1.0) / len(templates))
            for topic, templates in lexicon.topics.items()
            for template in templates
        ]
        self._cased = sorted(
            word for word in self.cased_words() if word.lower() not in _SOUND_ALIKE
        )

    def _expand(self, text: str, rng: Random) -> str:
        while match := _SLOT.search(text):
            text = (
                text[: match.start()]
                + rng.choice(self._slots[match[1]])
                + text[match.end() :]
            )
        return text

    def sentence(self, rng: Random) -> str:
        """Returns one sentence of 1 to `max_words` words, cased and punctuated."""
        if (
            self._lexicon.scrambled_share
            and rng.random() < self._lexicon.scrambled_share
        ):
            return self._scrambled(rng)
        templates, weights = zip(*self._templates, strict=True)
        while True:
            (template,) = rng.choices(templates, weights)
            text = self._expand(template, rng).replace("?.", "?")
            if self._lexicon.language == "en":
                text = vowel_article(text)
            if len(text.split()) <= self._lexicon.max_words:
                return text[0].upper() + text[1:]

    def _scrambled(self, rng: Random) -> str:
        """Returns words in any order, with a few commas."""
        words = [rng.choice(self._cased) for _ in range(rng.randint(1, MAX_SCRAMBLED))]
        marked = [word + "," if rng.random() < 0.1 else word for word in words[:-1]]
        text = " ".join([*marked, words[-1]]) + rng.choice("...?")
        return text[0].upper() + text[1:]

    def words(self) -> set[str]:
        """Returns every different word that the templates and the word lists hold, lower-cased."""
        texts = [template for template, _ in self._templates]
        texts += [entry for entries in self._slots.values() for entry in entries]
        found = _WORD.findall(_SLOT.sub(" ", " ".join(texts)).lower())
        return {word.strip("'") for word in found} - {""}

    def cased_words(self) -> set[str]:
        """Returns the words as they are written within a sentence: first words are left out."""
        cased: set[str] = set()
        for entries in self._slots.values():
            single = [
                entry for entry in entries if " " not in entry and "{" not in entry
            ]
            cased |= {entry for entry in single if len(entry) > 1}
            cased |= {
                word
                for entry in entries
                for word in _inner_words(entry)
                if "{" not in entry
            }
        cased |= {
            word for template, _ in self._templates for word in _inner_words(template)
        }
        lowered = {word for word in cased if word[0].islower()}
        return {
            word for word in cased if word[0].islower() or word.lower() not in lowered
        }


def _inner_words(text: str) -> list[str]:
    """Returns the words of a text after its first, without slots."""
    inner = _SLOT.sub("\0", text).split()[1:]
    stripped = [word.strip(".,?!:\"'") for word in inner]
    return [word for word in stripped if word.isalpha() and len(word) > 1]


def canonical(text: str) -> str:
    """Returns the words of `text` alone, lower-cased: what makes two sentences the same."""
    return " ".join(re.findall(r"[a-zäöüß']+", text.lower()))


def split_of(text: str) -> Split:
    """Returns the set a sentence belongs to, decided by a hash of its words alone.

    A sentence of the test set can therefore not be trained on, whichever seed draws it.
    """
    digest = hashlib.sha256(canonical(text).encode()).digest()
    return "test" if int.from_bytes(digest[:4], "big") % 100 < TEST_PERCENT else "train"


def draw_sentence(grammar: Grammar, rng: Random, split: Split) -> str:
    """Returns the next sentence of `split` that `rng` gives."""
    while True:
        text = grammar.sentence(rng)
        if split_of(text) == split:
            return text
