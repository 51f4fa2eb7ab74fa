"""The grammars there are: word lists, rules and templates of one language each.

`FIRST_ENGLISH` made the first set and stays as it is; `ENGLISH` and `GERMAN` serve all later ones.
"""

from dataclasses import dataclass

from lab.training.text import (
    english_templates,
    english_words,
    german_templates,
    german_words,
)
from lab.training.text import templates as first_templates
from lab.training.text import words as first_words


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All that a grammar draws from.

    Attributes:
        language: Whisper's code of it.
        slots: entries of each word list and rule.
        topics: templates by topic.
        weights: share of a topic relative to the others, 1 if not named.
        max_words: longest sentence.
        scrambled_share: part of the sentences that are words in any order, so that nothing but
            the sound tells what comes next.
    """

    language: str
    slots: dict[str, list[str]]
    topics: dict[str, list[str]]
    weights: dict[str, float]
    max_words: int = 40
    scrambled_share: float = 0.1


def _grown_slots() -> dict[str, list[str]]:
    """Returns the first English lists with the later entries behind them, each once."""
    grown = dict(first_words.slots())
    lists = {name: text.split() for name, text in english_words.WORDS.items()}
    lists |= {name: text.split("|") for name, text in english_words.PHRASES.items()}
    for name, entries in lists.items():
        grown[name] = list(dict.fromkeys(grown.get(name, []) + entries))
    return grown | first_templates.RULES | english_templates.RULES


FIRST_ENGLISH = Lexicon(
    "en",
    first_words.slots() | first_templates.RULES,
    first_templates.TOPICS,
    first_templates.WEIGHTS,
    max_words=20,
    scrambled_share=0.0,
)
ENGLISH = Lexicon(
    "en",
    _grown_slots(),
    first_templates.TOPICS | english_templates.TOPICS,
    first_templates.WEIGHTS | english_templates.WEIGHTS,
)
GERMAN = Lexicon(
    "de",
    german_words.slots() | german_templates.RULES,
    german_templates.TOPICS,
    german_templates.WEIGHTS,
)
LEXICONS = (ENGLISH, GERMAN)
