"""The running segment's text: what stays, and what may change.

A word stays once two hypotheses that are `settle_s` of audio apart have it at its place. Two alone
are weak evidence: a model that has heard half a sentence likes to finish it, and does so twice.
Source: local agreement (Liu et al. 2020; Macháček et al. 2023), with a time span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.decoding.search.verify_draft import Draft

SURE: Final = 0.5
"""Least probability of a word that stays before its segment ends. Real `base` on 7 minutes of
spontaneous speech: 18.6 % errors, without it 19.7 %; with 0.7 18.5 %, and final text of people who
read comes up to two seconds later."""

MARKS: Final = " .,;:!?\"'()[]{}«»“”„…-"


@dataclass(frozen=True, slots=True)
class Tentative:
    """A word that may still change, as recognised last.

    Attributes:
        since_s: length of the buffer in which it was first heard at this place.
        times: consecutive hypotheses that have it.
    """

    word: BufferWord
    since_s: float
    times: int = 1


@dataclass(slots=True)
class RunningText:
    """Hypotheses of a growing buffer, and the words of them that stay.

    Attributes:
        settled_s: a moment by which all committed words had been said, from the buffer's start.
        n_corrected: tentative words that were shown and then changed or removed.
        guess: token ids held back from the last hypothesis: not shown, but tried as a draft.
    """

    settle_s: float
    committed: list[BufferWord] = field(default_factory=list)
    tentative: list[Tentative] = field(default_factory=list)
    settled_s: float = 0.0
    n_corrected: int = 0
    guess: tuple[int, ...] = ()

    @property
    def draft(self) -> Draft:
        """Return what the next hypothesis may begin with; its committed part is fixed."""
        fixed = tuple(token for word in self.committed for token in word.tokens)
        rest = tuple(token for tentative in self.tentative for token in tentative.word.tokens)
        return Draft(fixed + rest + self.guess, len(fixed))

    @property
    def known(self) -> tuple[BufferWord, ...]:
        """Return all words as heard last."""
        return (*self.committed, *(tentative.word for tentative in self.tentative))

    def update(self, result: BufferText, length_s: float, *, may_stay: bool = True) -> None:
        """Take a hypothesis of the first `length_s` of the segment.

        Nothing is committed (`may_stay`) while its language is undecided.
        """
        words = self.behind_committed(result)
        agreed = self._count_agreed(words)
        self.tentative = [
            Tentative(word, old.since_s, old.times + 1)
            for word, old in zip(words, self.tentative[:agreed], strict=False)
        ] + [Tentative(word, length_s) for word in words[agreed:]]
        self.guess = result.guess
        if may_stay and not result.runaway:  # a loop would be committed word by word
            self._commit(length_s)

    def finish(self, result: BufferText) -> tuple[BufferWord, ...]:
        """Return all words of the segment after its last hypothesis, with times if it has them."""
        words = self.behind_committed(result)
        self._count_agreed(words)
        holders = [word for word in result.words for _ in word.tokens]
        timed, at = [], 0
        for word in self.committed:
            held = holders[at : at + len(word.tokens)]
            at += len(word.tokens)
            if held and word.tokens[0] in held[0].tokens:
                word = replace(word, start_s=held[0].start_s, end_s=held[-1].end_s)  # noqa: PLW2901
            timed.append(word)
        return (*timed, *words)

    def behind_committed(self, result: BufferText) -> tuple[BufferWord, ...]:
        """Return the words of a hypothesis that follow the committed ones."""
        fixed = self.draft.tokens[: self.draft.n_fixed]
        if fixed and result.tokens[: len(fixed)] == fixed:
            return words_behind(result.words, self.committed)
        return result.words[_accounted_for(self.committed, result.words) :]

    def _count_agreed(self, words: Sequence[BufferWord]) -> int:
        """Return how many tentative words a hypothesis keeps; the others are corrected."""
        agreed = 0
        for old, new in zip(self.tentative, words, strict=False):
            if (old.word.text, old.word.tokens) != (new.text, new.tokens):
                break
            agreed += 1
        self.n_corrected += len(self.tentative) - agreed
        return agreed

    def _commit(self, length_s: float) -> None:
        """Commit settled words; the last one of a hypothesis may be incomplete and never is."""
        n_ready = 0
        for old in self.tentative[:-1]:
            probability = old.word.probability
            is_doubtful = probability is not None and probability < SURE
            # Lengths are sums of frames: a thousandth of a second decides nothing.
            if is_doubtful or old.times < 2 or old.since_s > length_s - self.settle_s + 1e-3:
                break
            n_ready += 1
            self.settled_s = max(self.settled_s, old.since_s)
        self.committed += [old.word for old in self.tentative[:n_ready]]
        self.tentative = self.tentative[n_ready:]


def words_behind(
    words: Sequence[BufferWord], committed: Sequence[BufferWord]
) -> tuple[BufferWord, ...]:
    """Return the words behind the committed tokens; a mark may join the last committed word."""
    n_left = sum(len(word.tokens) for word in committed)
    for index, word in enumerate(words):
        if n_left == 0:
            return tuple(words[index:])
        if len(word.tokens) > n_left:
            shown = committed[-1].text
            text = word.text.removeprefix(shown) if word.text.startswith(shown) else ""
            rest = replace(word, text=text, tokens=word.tokens[n_left:])
            return (rest, *words[index + 1 :])
        n_left -= len(word.tokens)
    return ()


def _accounted_for(committed: Sequence[BufferWord], words: Sequence[BufferWord]) -> int:
    """Count the words of a hypothesis that the committed ones stand for, by edit distance.

    For engines that take no draft and may have changed committed words.
    """
    old, new = ([word.text.casefold().strip(MARKS) for word in one] for one in (committed, words))
    row = list(range(len(new) + 1))
    for done, wanted in enumerate(old, start=1):
        above, row = row, [done]
        for index, text in enumerate(new, start=1):
            differs = text != wanted
            row.append(min(above[index - 1] + differs, above[index] + 1, row[-1] + 1))
    return min(range(len(row)), key=lambda n: (row[n], abs(n - len(old))))
