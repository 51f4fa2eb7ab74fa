"""How soon words are on the screen, and how soon they stay, whatever program shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody said in one go.

    Attributes:
        text: in words.
        start_s: its first word begins, in seconds of the stream.
        end_s: its last word ends.
    """

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Shown:
    """All that a program shows at a time.

    Attributes:
        at_s: since the stream began.
        settled: text that never changes again, from the beginning of the stream on.
        running: what may change, behind it.
    """

    at_s: float
    settled: str
    running: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Of the utterances of which a program recognised a word.

    Attributes:
        first_s: from the beginning of each to its first word on the screen.
        final_s: from the end of each until its last word is settled.
        n_unheard: utterances of which it recognised none.
    """

    first_s: tuple[float, ...]
    final_s: tuple[float, ...]
    n_unheard: int

    def figures(self) -> dict[str, float]:
        """Medians and 95th percentiles, in seconds."""
        found = {}
        for name, values in (("first", self.first_s), ("final", self.final_s)):
            found[f"{name}_s_median"] = round(float(np.median(values)), 2)
            found[f"{name}_s_p95"] = round(float(np.percentile(values, 95)), 2)
        return found


def words_of(text: str) -> list[str]:
    """Words without case and marks."""
    stripped = (re.sub(r"[^\w']", "", word.casefold()) for word in text.split())
    return [word for word in stripped if word]


def latency(said: Sequence[Utterance], shown: Sequence[Shown]) -> Latency:
    """When each utterance was there, by the place of its words in the last text shown.

    Settled text only grows, so that the words of an utterance keep their places; running text
    stands behind it, and its first word counts when so many words are shown.

    Args:
        said: in order.
        shown: all that was shown, in order; the last has the whole text.
    """
    told = [words_of(utterance.text) for utterance in said]
    last = words_of(f"{shown[-1].settled} {shown[-1].running}") if shown else []
    places = _places([word for words in told for word in words], last)
    settled = [len(words_of(one.settled)) for one in shown]
    all_words = [
        count + len(words_of(one.running)) for one, count in zip(shown, settled, strict=True)
    ]
    first_s, final_s = [], []
    begins = np.cumsum([0, *map(len, told)])
    for utterance, (begin, end) in zip(said, pairwise(begins), strict=True):
        own = [places[at] for at in range(begin, end) if at in places]
        if not own:
            continue
        times = [one.at_s for one in shown]
        first = next(
            at_s
            for at_s, count in zip(times, all_words, strict=True)
            if at_s >= utterance.start_s and count > own[0]
        )
        final = next(
            (at_s for at_s, count in zip(times, settled, strict=True) if count > own[-1]), times[-1]
        )
        first_s.append(first - utterance.start_s)
        final_s.append(final - utterance.end_s)
    return Latency(tuple(first_s), tuple(final_s), len(said) - len(first_s))


def _places(expected: list[str], got: list[str]) -> dict[int, int]:
    """Where in a text the words that were recognised stand, by their places in what was said."""
    blocks = SequenceMatcher(None, expected, got, autojunk=False).get_matching_blocks()
    return {block.a + offset: block.b + offset for block in blocks for offset in range(block.size)}
