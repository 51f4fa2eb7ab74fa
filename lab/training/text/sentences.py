"""The split of sentences into trained and tested ones, and the drawing of either kind."""

import hashlib
import re
from random import Random
from typing import Literal

from lab.training.text.grammar import Grammar

Split = Literal["train", "test"]
TEST_PERCENT = 4


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
