"""The running segment's text: which words are committed, and which may still change.

A word is committed once two hypotheses that are `settle_s` of audio apart have it at its place. Two
alone are weak evidence: a model that has heard half a sentence likes to finish it, and does so
twice.
Source: local agreement (Liu et al. 2020; Macháček et al. 2023), with a time span.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Final

from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.decoding.search.verify_draft import Draft

MIN_PROBABILITY: Final = 0.7
"""A less likely word is doubtful."""

DOUBT_S: Final = 2.0
"""Agreement over so much audio commits a doubtful word, too: it may not hold up all that follow.
Before hypotheses were aligned, 1.5 % of 446 words of people (base, tiny.en) were others than in the
final text, and with 3 s for words below 0.5 probability 2.0 %."""

PLACE_S: Final = 4.0
"""A place in the text at which words have changed for so long is committed with the one that two
hypotheses in a row have: two spellings of a name, in turns, may not hold up all that follow. Of 367
words (base) 95 % settle within 4.1 s, without it 5.0, with 3 s 3.8 s and two more wrong words."""

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
        since_s: length of the buffer in which it was first heard.
        place_s: length of the buffer in which a word was first heard at its place.
        n_hypotheses: consecutive hypotheses that have it.
    """

    word: BufferWord
    since_s: float
    place_s: float
    n_hypotheses: int = 0


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
        followed = self._follow_words(words, length_s)
        n_lost = len(self.tentative) - _count_repeated(followed)
        self.ends_clause = False
        if not self.is_collapsed and self._is_collapse(len(words), n_lost):
            self.is_collapsed = True
            return
        self.is_collapsed = False
        self.n_corrected += n_lost
        self.tentative = [
            replace(item, n_hypotheses=item.n_hypotheses + 1) for item in followed
        ]
        self.guess = result.guess
        if len(result.text) > self.n_characters:
            self.n_characters = len(result.text)
            self.grown_s = length_s
        if may_commit and not result.runaway:  # a loop would be committed word by word
            self._commit(length_s)

    def finish(self, result: BufferText) -> tuple[BufferWord, ...]:
        """Return all words of the segment after its last hypothesis, with times if it has them."""
        words = self.words_behind_committed(result)
        n_repeated = _count_repeated(self._follow_words(words, length_s=0.0))
        self.n_corrected += len(self.tentative) - n_repeated
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
        rest = []
        followed = self._follow_words(words, length_s)
        for item in followed[len(words) - n_rest :]:
            moved = replace(
                item,
                since_s=item.since_s - cut_s,
                place_s=item.place_s - cut_s,
                n_hypotheses=max(1, item.n_hypotheses),
            )
            rest.append(moved)
        return rest

    def _follow_words(
        self, words: Sequence[BufferWord], length_s: float
    ) -> list[Tentative]:
        """Return the words of a hypothesis, as old as the tentative ones that they stand for.

        A word that changes makes those behind it no younger. New ones are in no hypothesis yet.
        """
        old_texts = [_spelling(item.word) for item in self.tentative]
        texts = [_spelling(word) for word in words]
        followed = []
        matcher = SequenceMatcher(None, old_texts, texts, autojunk=False)
        for tag, old_begin, old_end, begin, end in matcher.get_opcodes():
            old = self.tentative[old_begin:old_end]
            for index, word in enumerate(words[begin:end]):
                if tag == "equal":
                    item = replace(old[index], word=word)
                else:
                    place_s = old[index].place_s if index < len(old) else length_s
                    item = Tentative(word, length_s, place_s)
                followed.append(item)
        return followed

    def _is_collapse(self, n_words: int, n_lost: int) -> bool:
        """Return whether a hypothesis leaves little of what is shown."""
        is_short = _COLLAPSE_FACTOR * n_words <= len(self.tentative)
        return is_short and n_lost >= _COLLAPSE

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
        is_old |= item.place_s <= length_s - PLACE_S + _LENGTH_ERROR_S
        return is_old and item.n_hypotheses >= 2


def _count_repeated(followed: Iterable[Tentative]) -> int:
    """Count the words of a hypothesis that an earlier one has."""
    return sum(item.n_hypotheses > 0 for item in followed)


def _spelling(word: BufferWord) -> str:
    """Return what hypotheses compare of a word: its letters, or its marks if it has none."""
    return word.text.casefold().strip(MARKS) or word.text


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
