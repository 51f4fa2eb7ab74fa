"""The running segment's text: what stays, what may change, and the policies that decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.events import CaptionWord
from whisper_hailo.live.options import SETTLE_S, CaptionOptions, PolicyName

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


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """Decides which words stay. The last word of a hypothesis may be incomplete and never does.

    `agreement` commits a word that at least two consecutive hypotheses, `settle_s` of audio apart,
    have at its place. Two hypotheses alone are weak evidence: a model that has heard half a
    sentence likes to finish it, and does so twice. Source: local agreement (Liu et al. 2020;
    Macháček et al. 2023), with a time span.

    `alignatt` commits a word at once if the decoder attends to nothing of the last `settle_s` of
    audio for it. Words of decoders without alignment are left to agreement. Source: AlignAtt (Papi
    et al. 2023).
    """

    name: PolicyName
    settle_s: float

    @classmethod
    def of(cls, options: CaptionOptions) -> CommitPolicy:
        """Return the policy that options name."""
        return cls(options.policy, options.policy_settle_s)

    def is_settled(self, tentative: Tentative, length_s: float) -> bool:
        """Return whether a word of a buffer of `length_s` stays, if those before it do."""
        attended_s = tentative.word.attended_s
        # Lengths are sums of frames: a thousandth of a second decides nothing.
        if self.name == "alignatt" and attended_s is not None:
            return attended_s <= length_s - self.settle_s + 1e-3
        apart_s = self.settle_s if self.name == "agreement" else SETTLE_S["agreement"]
        return tentative.times >= 2 and tentative.since_s <= length_s - apart_s + 1e-3

    def said_by_s(self, tentative: Tentative) -> float:
        """Return a moment by which a settled word has been said, from the buffer's start."""
        attended_s = tentative.word.attended_s
        if self.name == "agreement" or attended_s is None:
            return tentative.since_s
        return min(tentative.since_s, attended_s + self.settle_s)


@dataclass(slots=True)
class RunningText:
    """Hypotheses of a growing buffer, and the words of them that stay.

    Attributes:
        settled_s: a moment by which all committed words had been said, from the buffer's start.
        n_corrected: tentative words that were shown and then changed or removed.
        guess: token ids held back from the last hypothesis: not shown, but tried as a draft.
    """

    policy: CommitPolicy
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

    def behind_committed(self, result: BufferText) -> tuple[BufferWord, ...]:
        """Return the words of a hypothesis that follow the committed ones."""
        fixed = self.draft.tokens[: self.draft.n_fixed]
        if fixed and result.tokens[: len(fixed)] == fixed:
            return words_behind(result.words, self.committed)
        return result.words[_accounted_for(self.committed, result.words) :]

    def update(self, result: BufferText, length_s: float, *, may_stay: bool = True) -> None:
        """Take a hypothesis of the first `length_s` of the segment.

        Nothing is committed (`may_stay`) while its language is undecided.
        """
        words = self.behind_committed(result)
        self._count_corrections(words)
        agreed = _agreeing([t.word for t in self.tentative], words)
        now = [
            Tentative(word, old.since_s, old.times + 1)
            for word, old in zip(words, self.tentative[:agreed], strict=False)
        ]
        self.tentative = now + [Tentative(word, length_s) for word in words[agreed:]]
        self.guess = result.guess
        if may_stay and not result.runaway:  # a loop would be committed word by word
            self._commit(length_s)

    def finish(self, result: BufferText) -> tuple[BufferWord, ...]:
        """Return all words of the segment after its last hypothesis, with times if it has them."""
        words = self.behind_committed(result)
        self._count_corrections(words)
        return (*_timed(self.committed, result.words), *words)

    def _commit(self, length_s: float) -> None:
        n_ready = 0
        for old in self.tentative[:-1]:
            probability = old.word.probability
            is_doubtful = probability is not None and probability < SURE
            if is_doubtful or not self.policy.is_settled(old, length_s):
                break
            n_ready += 1
            self.settled_s = max(self.settled_s, self.policy.said_by_s(old))
        self.committed += [old.word for old in self.tentative[:n_ready]]
        self.tentative = self.tentative[n_ready:]

    def _count_corrections(self, words: Sequence[BufferWord]) -> None:
        shown = [tentative.word for tentative in self.tentative]
        self.n_corrected += len(shown) - _agreeing(shown, words)


def caption_words(
    words: Sequence[BufferWord], start_s: float, end_s: float
) -> tuple[CaptionWord, ...]:
    """Return words for events, with times in the stream instead of the segment."""

    def within(seconds: float | None) -> float | None:
        return None if seconds is None else min(start_s + seconds, end_s)

    return tuple(
        CaptionWord(word.text, word.probability, within(word.start_s), within(word.end_s))
        for word in words
    )


def _timed(committed: Sequence[BufferWord], words: Sequence[BufferWord]) -> Iterator[BufferWord]:
    """Return committed words with the times that a hypothesis has for their tokens."""
    holders = [word for word in words for _ in word.tokens]
    at = 0
    for word in committed:
        held = holders[at : at + len(word.tokens)]
        at += len(word.tokens)
        fits = held and word.tokens[0] in held[0].tokens
        yield replace(word, start_s=held[0].start_s, end_s=held[-1].end_s) if fits else word


def _agreeing(left: Sequence[BufferWord], right: Sequence[BufferWord]) -> int:
    """Return the common prefix of two lists of words."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one.text != other.text or one.tokens != other.tokens:
            return index
    return min(len(left), len(right))


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
    if not committed:
        return 0
    row = list(range(len(words) + 1))
    for done, old in enumerate(committed, start=1):
        above, row = row, [done]
        for index, new in enumerate(words, start=1):
            same = _plain(old.text) == _plain(new.text)
            row.append(min(above[index - 1] + (not same), above[index] + 1, row[-1] + 1))
    return min(range(len(row)), key=lambda n: (row[n], abs(n - len(committed))))


def _plain(text: str) -> str:
    return text.casefold().strip(MARKS)
