"""Latency of captions: when the words of each utterance were shown, and when they were final."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np


@dataclass(frozen=True, slots=True)
class Utterance:
    """A stretch of speech.

    Attributes:
        text: words.
        start_s: start of the first word, in seconds of the stream.
        end_s: end of the last word.
    """

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Shown:
    """Text that captions show at one time.

    Attributes:
        at_s: seconds since the start of the stream.
        settled: text that never changes again, from the start of the stream.
        running: text after it that may change.
    """

    at_s: float
    settled: str
    running: str


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A word of a transcript, and when it ends in the stream."""

    text: str
    end_s: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies of the utterances of which at least one word was recognised.

    Attributes:
        first_s: seconds from the start of each to its first word on the screen.
        final_s: seconds from the end of each until its last word is settled.
        n_unheard: utterances without a recognised word.
    """

    first_s: tuple[float, ...]
    final_s: tuple[float, ...]
    n_unheard: int

    def figures(self) -> dict[str, float]:
        """Return medians and 95th percentiles, in seconds."""
        return {
            "first_s_median": round(float(np.median(self.first_s)), 2),
            "first_s_p95": round(float(np.percentile(self.first_s, 95)), 2),
            "final_s_median": round(float(np.median(self.final_s)), 2),
            "final_s_p95": round(float(np.percentile(self.final_s, 95)), 2),
        }


def split_words(text: str) -> list[str]:
    """Return the words in lower case, without punctuation."""
    stripped = (re.sub(r"[^\w']", "", word.casefold()) for word in text.split())
    return [word for word in stripped if word]


def measure_latency(utterances: Sequence[Utterance], shown: Sequence[Shown]) -> Latency:
    """Return when each utterance was shown, by the position of its words in the last text.

    Settled text only grows, so that the words of an utterance keep their positions. Running text
    comes after it; the first word of an utterance counts as shown once that many words are shown.

    Args:
        utterances: in order.
        shown: everything that was shown, in order; the last has the whole text.
    """
    last: list[str] = []
    if shown:
        last = split_words(f"{shown[-1].settled} {shown[-1].running}")
    n_settled = [len(split_words(each.settled)) for each in shown]
    n_all = []
    for each, count in zip(shown, n_settled, strict=True):
        n_all.append(count + len(split_words(each.running)))
    first_s = []
    final_s = []
    for utterance, positions in zip(
        utterances, _positions(utterances, last), strict=True
    ):
        if not positions:
            continue
        first = next(
            each.at_s
            for each, count in zip(shown, n_all, strict=True)
            if each.at_s >= utterance.start_s and count > positions[0]
        )
        settled = (
            each.at_s
            for each, count in zip(shown, n_settled, strict=True)
            if count > positions[-1]
        )
        first_s.append(first - utterance.start_s)
        final_s.append(next(settled, shown[-1].at_s) - utterance.end_s)
    return Latency(tuple(first_s), tuple(final_s), len(utterances) - len(first_s))


def _positions(utterances: Sequence[Utterance], last: list[str]) -> Iterator[list[int]]:
    """Yield the positions of each utterance's recognised words in the last text."""
    words = [split_words(utterance.text) for utterance in utterances]
    expected = [word for group in words for word in group]
    matcher = SequenceMatcher(None, expected, last, autojunk=False)
    matches = {}
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            matches[block.a + offset] = block.b + offset
    begin = 0
    for group in words:
        end = begin + len(group)
        yield [matches[index] for index in range(begin, end) if index in matches]
        begin = end


def measure_settling(words: Sequence[TimedWord], shown: Sequence[Shown]) -> list[float]:
    """Return how long after its end each word of a transcript was settled, in seconds.

    Words that captions have otherwise, or not at all, do not count.

    Args:
        words: in order.
        shown: everything that was shown, in order; the last has the whole text.
    """
    expected = []
    ends_s = []
    for word in words:
        for part in split_words(word.text):
            expected.append(part)
            ends_s.append(word.end_s)
    last = split_words(shown[-1].settled)
    n_settled = [len(split_words(each.settled)) for each in shown]
    matcher = SequenceMatcher(None, expected, last, autojunk=False)
    settle_s = []
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            position = block.b + offset
            at_s = next(
                each.at_s
                for each, count in zip(shown, n_settled, strict=True)
                if count > position
            )
            settle_s.append(at_s - ends_s[block.a + offset])
    return settle_s
