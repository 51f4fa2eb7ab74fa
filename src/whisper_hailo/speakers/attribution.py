"""Words given to speakers by their times; segments cut where another speaker begins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from whisper_hailo.core.types import Segment, Word
from whisper_hailo.speakers.turns import SpeakerTurns

_NEAR_S: Final = 1.0
"""A word outside of all turns belongs to the nearest turn, if that is so near; else to the speaker
before it: Whisper's times of words are a few tenths of a second off."""

_SLIP_S: Final = 0.4
"""Most that a sentence's end can lie from a change of speaker which it explains."""

_SENTENCE_ENDS: Final = (".", "?", "!", "…", "。", "？", "！", "।", "؟")  # noqa: RUF001

_CLOSING_MARKS: Final = " \"'”’»)"  # noqa: RUF001 - quotation marks are meant


@dataclass(frozen=True, slots=True)
class _SpeakerSpans:
    """The turns of one speaker, which do not overlap."""

    starts_s: tuple[float, ...]
    ends_s: tuple[float, ...]

    def overlap_s(self, start_s: float, end_s: float) -> float:
        """Return for how long the speaker speaks between two times."""
        first = bisect_right(self.ends_s, start_s)
        last = bisect_left(self.starts_s, end_s)
        return sum(
            min(end_s, self.ends_s[index]) - max(start_s, self.starts_s[index])
            for index in range(first, last)
        )

    def distance_s(self, time_s: float) -> float:
        """Return how far the nearest turn is from a time; 0 within one."""
        index = bisect_left(self.ends_s, time_s)
        distances_s = []
        if index < len(self.starts_s):
            distances_s.append(max(0.0, self.starts_s[index] - time_s))
        if index > 0:
            distances_s.append(time_s - self.ends_s[index - 1])
        return min(distances_s)


class SpeakerAttribution:
    """Gives the segments of one recording to its speakers, in order of time.

    Args:
        turns: who speaks when.
        names: of the speakers in order of appearance; those without one have a number from 0.
    """

    def __init__(self, turns: SpeakerTurns, names: Sequence[str] = ()) -> None:
        spans = []
        for speaker in range(turns.n_speakers):
            turns_of_one = [turn for turn in turns.turns if turn.speaker == speaker]
            spans.append(
                _SpeakerSpans(
                    tuple(turn.start_s for turn in turns_of_one),
                    tuple(turn.end_s for turn in turns_of_one),
                )
            )
        self._spans = spans
        self._names = names
        self._previous: int | None = None
        self._ends_sentence = True

    def attribute(self, segment: Segment) -> list[Segment]:
        """Return a segment with its speaker, cut where the speaker changes.

        A segment without word times is not cut; it belongs to whom most of its time belongs to.
        """
        if not self._spans:
            return [segment]
        if not segment.words:
            self._previous = self._find_speaker(segment.start_s, segment.end_s)
            return [replace(segment, speaker=self._label(self._previous))]
        speakers = []
        for word in segment.words:
            self._previous = self._find_speaker(word.start_s, word.end_s)
            speakers.append(self._previous)
        speakers = self._move_to_sentence_ends(segment.words, speakers)
        self._previous = speakers[-1]
        parts: list[Segment] = []
        begin = 0
        for end in range(1, len(speakers) + 1):
            if end == len(speakers) or speakers[end] != speakers[begin]:
                parts.append(self._cut(segment, begin, end, speakers[begin]))
                begin = end
        return parts

    def _find_speaker(self, start_s: float, end_s: float) -> int:
        """Return who speaks most between two times; the one before in doubt."""
        overlaps_s = [spans.overlap_s(start_s, end_s) for spans in self._spans]
        longest_s = max(overlaps_s)
        if longest_s > 0:
            previous = self._previous
            if previous is not None and overlaps_s[previous] >= longest_s:
                return previous
            return overlaps_s.index(longest_s)
        middle_s = (start_s + end_s) / 2
        distances_s = [spans.distance_s(middle_s) for spans in self._spans]
        shortest_s = min(distances_s)
        previous = self._previous
        # Words can have no length, and two people can be equally near.
        if previous is not None and (
            shortest_s > _NEAR_S or distances_s[previous] == shortest_s
        ):
            return previous
        return distances_s.index(shortest_s)

    def _move_to_sentence_ends(
        self, words: Sequence[Word], speakers: list[int]
    ) -> list[int]:
        """Return the speakers with changes moved to a sentence's end one or two words away.

        Whisper writes the end of a sentence where somebody stops; its times are less exact. The
        start of a segment is such an end, unless the one before it ended within a sentence.
        """
        moved = list(speakers)
        for change in range(1, len(speakers)):
            if speakers[change] == speakers[change - 1] or self._is_sentence_end(
                words, change
            ):
                continue
            for shift in (1, -1, 2, -2):
                target = change + shift
                if not 0 <= target <= len(words) or not self._is_sentence_end(
                    words, target
                ):
                    continue
                target_s = (
                    words[target].start_s if target < len(words) else words[-1].end_s
                )
                if abs(target_s - words[change].start_s) > _SLIP_S:
                    continue
                for index in range(min(change, target), max(change, target)):
                    moved[index] = (
                        speakers[change - 1] if shift > 0 else speakers[change]
                    )
                break
        self._ends_sentence = _ends_sentence(words[-1])
        return moved

    def _is_sentence_end(self, words: Sequence[Word], index: int) -> bool:
        """Return whether a sentence ends before a word."""
        return self._ends_sentence if index == 0 else _ends_sentence(words[index - 1])

    def _cut(self, segment: Segment, begin: int, end: int, speaker: int) -> Segment:
        """Return the words `begin` to `end` of a segment as one of its own."""
        label = self._label(speaker)
        words = tuple(replace(word, speaker=label) for word in segment.words[begin:end])
        if len(words) == len(segment.words):
            return replace(segment, words=words, speaker=label)
        return replace(
            segment,
            start_s=segment.start_s if begin == 0 else words[0].start_s,
            end_s=segment.end_s if end == len(segment.words) else words[-1].end_s,
            text="".join(word.text for word in words).strip(),
            tokens=tuple(token for word in words for token in word.tokens),
            words=words,
            speaker=label,
        )

    def _label(self, speaker: int) -> int | str:
        """Return the name of a speaker, or the number."""
        if speaker < len(self._names) and self._names[speaker]:
            return self._names[speaker]
        return speaker


def _ends_sentence(word: Word) -> bool:
    return word.text.rstrip(_CLOSING_MARKS).endswith(_SENTENCE_ENDS)
