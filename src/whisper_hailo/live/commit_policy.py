"""The running segment's text: which words are committed, and which may still change.

A word is committed once two hypotheses that are `settle_s` of audio apart have it at its place. Two
alone are weak evidence: a model that has heard half a sentence likes to finish it, and does so
twice.
Source: local agreement (Liu et al. 2020; Macháček et al. 2023), with a time span.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.decoding.search.verify_draft import Draft

MIN_PROBABILITY: Final = 0.7
"""A less likely word is doubtful."""

DOUBT_S: Final = 2.0
"""Agreement over so much audio commits a doubtful word, too: it may not hold up all that follow.
Of 446 words of people (base, tiny.en) 1.5 % are others than in the final text, and 95 % settle
within 6.7 and 4.4 s; with 3 s for words below 0.5 it is 2.0 %, and 7.9 s for both."""

_COLLAPSE: Final = 4
_COLLAPSE_FACTOR: Final = 3
"""A hypothesis that takes so many shown words away, and is a third as long or less, is believed
when it comes twice. Now and then tiny.en hears "the" in 8 s of speech, and the sentence again in
the next partial."""

SENTENCE_S: Final = 6.0
CLAUSE_S: Final = 10.0
"""Length from which a segment ends with its sentence, or with its clause, if no pause ends it."""

_SENTENCE_ENDS: Final = tuple(".?!…。？！")  # noqa: RUF001 - full-width marks are meant
_CLAUSE_ENDS: Final = tuple(",;:、，；：")  # noqa: RUF001 - full-width marks are meant

MARKS: Final = " .,;:!?\"'()[]{}«»“”„…-"
"""Characters that do not make two spellings of a word different."""

_LENGTH_ERROR_S: Final = 1e-3
"""Lengths are sums of frames: a thousandth of a second decides nothing."""


@dataclass(frozen=True, slots=True)
class Tentative:
    """A word that may still change, as recognised last.

    Attributes:
        since_s: length of the buffer in which it was first heard at this place.
        n_hypotheses: consecutive hypotheses that have it.
    """

    word: BufferWord
    since_s: float
    n_hypotheses: int = 1


@dataclass(slots=True)
class RunningText:
    """Hypotheses of a growing buffer, and the words of them that are committed.

    Attributes:
        settled_s: a time by which all committed words had been said, from the buffer's start.
        grown_s: length of the buffer when the text last became longer than ever before, or a word
            was heard that is committed now.
        ends_clause: a clause ends with the committed words, and the segment is long enough to end.
        n_characters: of the longest text so far.
        n_corrected: tentative words that were shown and then changed or removed.
        guess: token ids held back from the last hypothesis: not shown, but tried as a draft.
        is_collapsed: the last hypothesis took much of the text away, and was not believed.
    """

    settle_s: float
    committed: list[BufferWord] = field(default_factory=list)
    tentative: list[Tentative] = field(default_factory=list)
    settled_s: float = 0.0
    grown_s: float = 0.0
    ends_clause: bool = False
    n_corrected: int = 0
    guess: tuple[int, ...] = ()
    n_characters: int = 0
    is_collapsed: bool = False

    @property
    def draft(self) -> Draft:
        """What the next hypothesis may begin with; its committed part is fixed."""
        fixed = _tokens_of(self.committed)
        rest = _tokens_of(item.word for item in self.tentative)
        return Draft(fixed + rest + self.guess, len(fixed))

    @property
    def known(self) -> tuple[BufferWord, ...]:
        """All words as recognised last."""
        return (*self.committed, *(item.word for item in self.tentative))

    def update(
        self, result: BufferText, length_s: float, *, may_commit: bool = True
    ) -> None:
        """Take a hypothesis of the first `length_s` of the segment.

        While the language is not sure, nothing may be committed.
        """
        words = self.words_behind_committed(result)
        n_agreed = self._count_agreed(words)
        self.ends_clause = False
        if not self.is_collapsed and self._is_collapse(words, n_agreed):
            self.is_collapsed = True
            return
        self.is_collapsed = False
        self.n_corrected += len(self.tentative) - n_agreed
        tentative = []
        for word, item in zip(words[:n_agreed], self.tentative[:n_agreed], strict=True):
            tentative.append(Tentative(word, item.since_s, item.n_hypotheses + 1))
        for word in words[n_agreed:]:
            tentative.append(Tentative(word, length_s))
        self.tentative = tentative
        self.guess = result.guess
        if len(result.text) > self.n_characters:
            self.n_characters = len(result.text)
            self.grown_s = length_s
        if may_commit and not result.runaway:  # a loop would be committed word by word
            self._commit(length_s)

    def finish(self, result: BufferText) -> tuple[BufferWord, ...]:
        """Return all words of the segment after its last hypothesis, with times if it has them."""
        words = self.words_behind_committed(result)
        self.n_corrected += len(self.tentative) - self._count_agreed(words)
        word_of_token: list[BufferWord] = []  # for each token of the last hypothesis
        for word in result.words:
            word_of_token += [word] * len(word.tokens)
        timed = []
        n_tokens = 0
        for word in self.committed:
            matches = word_of_token[n_tokens : n_tokens + len(word.tokens)]
            n_tokens += len(word.tokens)
            timed.append(_with_times(word, matches))
        return (*timed, *words)

    def words_behind_committed(self, result: BufferText) -> tuple[BufferWord, ...]:
        """Return the words of a hypothesis that follow the committed ones."""
        fixed = _tokens_of(self.committed)
        if fixed and result.tokens[: len(fixed)] == fixed:
            return words_behind(result.words, self.committed)
        return result.words[_count_matching(self.committed, result.words) :]

    def may_end_clause(self, length_s: float) -> bool:
        """Return whether a clause may end the segment with the next committed words."""
        if not self.committed:
            return False
        return any(_ends_clause(item.word, length_s) for item in self.tentative[:-1])

    def split_rest(
        self, words: Sequence[BufferWord], n_rest: int, cut_s: float, length_s: float
    ) -> list[Tentative]:
        """Return the words behind a cut, as old as they are here.

        Args:
            words: those behind the committed ones, of the last hypothesis.
            n_rest: how many of the last ones are behind the cut.
            cut_s: where the cut is.
            length_s: length of the buffer of that hypothesis.
        """
        n_agreed = self._count_agreed(words)
        rest: list[Tentative] = []
        for index in range(len(words) - n_rest, len(words)):
            item = Tentative(words[index], length_s)
            if index < n_agreed:
                item = replace(self.tentative[index], word=words[index])
            rest.append(replace(item, since_s=item.since_s - cut_s))
        return rest

    def _count_agreed(self, words: Sequence[BufferWord]) -> int:
        """Return how many tentative words a hypothesis keeps."""
        n_agreed = 0
        for item, word in zip(self.tentative, words, strict=False):
            if not _is_same_word(item.word, word):
                break
            n_agreed += 1
        return n_agreed

    def _is_collapse(self, words: Sequence[BufferWord], n_agreed: int) -> bool:
        """Return whether a hypothesis leaves little of what is shown."""
        n_shown = len(self.tentative)
        is_short = _COLLAPSE_FACTOR * len(words) <= n_shown
        return is_short and n_shown - n_agreed >= _COLLAPSE

    def _commit(self, length_s: float) -> None:
        """Commit settled words, in order; the last one of a hypothesis may be incomplete."""
        n_settled = 0
        for item in self.tentative[:-1]:
            if not self._is_settled(item, length_s):
                break
            n_settled += 1
            self.settled_s = max(self.settled_s, item.since_s)
            # Its text reaches as far, even if an earlier guess was longer: a cut where the
            # text stopped growing may not be before a committed word.
            self.grown_s = max(self.grown_s, self.settled_s)
            if _ends_clause(item.word, length_s):
                self.ends_clause = True
                break
        self.committed += [item.word for item in self.tentative[:n_settled]]
        self.tentative = self.tentative[n_settled:]

    def _is_settled(self, item: Tentative, length_s: float) -> bool:
        """Return whether a word was recognised early enough and again."""
        probability = item.word.probability
        settle_s = self.settle_s
        if probability is not None and probability < MIN_PROBABILITY:
            settle_s = max(settle_s, DOUBT_S)
        is_old = item.since_s <= length_s - settle_s + _LENGTH_ERROR_S
        return is_old and item.n_hypotheses >= 2


def _is_same_word(old: BufferWord, new: BufferWord) -> bool:
    """Return whether two hypotheses have a word, with whatever marks and capitals."""
    if old.tokens == new.tokens:
        return old.text == new.text
    old_text = old.text.casefold().strip(MARKS)
    return bool(old_text) and old_text == new.text.casefold().strip(MARKS)


def _ends_clause(word: BufferWord, length_s: float) -> bool:
    """Return whether a segment of this length ends with a word, by the marks behind it."""
    if length_s >= SENTENCE_S and word.text.endswith(_SENTENCE_ENDS):
        return True
    return length_s >= CLAUSE_S and word.text.endswith(_CLAUSE_ENDS)


def _tokens_of(words: Iterable[BufferWord]) -> tuple[int, ...]:
    return tuple(token for word in words for token in word.tokens)


def _with_times(word: BufferWord, matches: Sequence[BufferWord]) -> BufferWord:
    """Return a committed word with the times of the words that hold its tokens now."""
    if not matches or word.tokens[0] not in matches[0].tokens:
        return word
    return replace(word, start_s=matches[0].start_s, end_s=matches[-1].end_s)


def words_behind(
    words: Sequence[BufferWord], committed: Sequence[BufferWord]
) -> tuple[BufferWord, ...]:
    """Return the words behind the committed tokens; a mark may join the last committed word."""
    n_tokens = sum(len(word.tokens) for word in committed)
    for index, word in enumerate(words):
        if n_tokens == 0:
            return tuple(words[index:])
        if len(word.tokens) > n_tokens:
            last = committed[-1].text
            mark = word.text.removeprefix(last) if word.text.startswith(last) else ""
            rest = replace(word, text=mark, tokens=word.tokens[n_tokens:])
            return (rest, *words[index + 1 :])
        n_tokens -= len(word.tokens)
    return ()


def _count_matching(
    committed: Sequence[BufferWord], words: Sequence[BufferWord]
) -> int:
    """Count the words of a hypothesis that the committed ones stand for, by edit distance.

    For recognisers that take no draft and may have changed committed words.
    """
    old = [word.text.casefold().strip(MARKS) for word in committed]
    new = [word.text.casefold().strip(MARKS) for word in words]
    # distances[n]: edits from the old words so far to the first n new ones (Levenshtein).
    distances = list(range(len(new) + 1))
    for n_old, old_text in enumerate(old, start=1):
        above = distances
        distances = [n_old]
        for index, text in enumerate(new):
            replaced = above[index] + (text != old_text)
            removed = above[index + 1] + 1
            inserted = distances[-1] + 1
            distances.append(min(replaced, removed, inserted))

    def cost(n_new: int) -> tuple[int, int]:
        return distances[n_new], abs(n_new - len(old))

    return min(range(len(distances)), key=cost)
