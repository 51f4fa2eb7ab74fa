"""The random expansion of sentence templates over word lists.

A template is expanded from left to right until no brace is left, so rules may nest. `a` before a
vowel becomes `an`, and the first letter is raised.
"""

import re
from random import Random

from training.text.templates import RULES, TOPICS, WEIGHTS
from training.text.words import slots

MAX_WORDS = 20
_SLOT = re.compile(r"\{(\w+)\}")
_VOWEL = re.compile(r"\b([Aa]) (?=[aeiouAEIO])(?!one\b|university|European)")


def vowel_article(text: str) -> str:
    """Writes `a` before a vowel as `an`."""
    return _VOWEL.sub(r"\1n ", text)


class Grammar:
    """Draws sentences; the same `Random` state gives the same sentences."""

    def __init__(self) -> None:
        self._slots = slots() | RULES
        self._templates = [
            (template, WEIGHTS.get(topic, 1.0) / len(templates))
            for topic, templates in TOPICS.items()
            for template in templates
        ]

    def _expand(self, text: str, rng: Random) -> str:
        while match := _SLOT.search(text):
            text = text[: match.start()] + rng.choice(self._slots[match[1]]) + text[match.end() :]
        return text

    def sentence(self, rng: Random) -> str:
        """Returns one sentence of 1 to `MAX_WORDS` words, cased and punctuated."""
        templates, weights = zip(*self._templates, strict=True)
        while True:
            (template,) = rng.choices(templates, weights)
            text = self._expand(template, rng)
            text = vowel_article(text.replace("?.", "?"))
            if len(text.split()) <= MAX_WORDS:
                return text[0].upper() + text[1:]

    def words(self) -> set[str]:
        """Returns every different word that the templates and the word lists hold, lower-cased."""
        texts = [template for template, _ in self._templates]
        texts += [entry for entries in self._slots.values() for entry in entries]
        found = re.findall(r"[a-z']+", _SLOT.sub(" ", " ".join(texts)).lower())
        return {word.strip("'") for word in found} - {""}
