"""Windows that overlap or are adjacent, and how the texts of two of them are joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    UNSPACED_LANGUAGES,
    FloatArray,
    Segment,
    Word,
)
from whisper_hailo.decoding.words import with_words
from whisper_hailo.transcription.longform.options import Clip
from whisper_hailo.transcription.longform.planner import MIN_SAMPLES, WindowPlanner
from whisper_hailo.transcription.window import WindowResult

_FRAME: Final = SAMPLE_RATE_HZ // 50
"""Samples of 20 ms, whose loudness is measured."""
_SHORTEST_FRAMES: Final = 10
"""0.2 s: the closure of a consonant is shorter."""
_SHARE: Final = 0.25
"""A pause is below this share of the way from quiet frames to loud ones, in dB."""
_LEAST_DB: Final = 6.0
"""A smaller range is a steady sound, not speech with pauses."""


def find_silence(audio: FloatArray, start: int) -> int | None:
    """Return the middle of the longest pause after sample `start` of a window, or `None`."""
    n_frames = audio.size // _FRAME
    if n_frames == 0:
        return None
    frames = audio[: n_frames * _FRAME].reshape(-1, _FRAME).astype(np.float64)
    loudness_db = 10 * np.log10((frames**2).mean(axis=1) + 1e-10)
    quiet_db, loud_db = np.quantile(loudness_db, [0.1, 0.9])
    if loud_db - quiet_db < _LEAST_DB:
        return None
    is_quiet = loudness_db <= quiet_db + _SHARE * (loud_db - quiet_db)
    first = -(-start // _FRAME)  # rounded up
    edges = np.diff(is_quiet[first:].astype(np.int8), prepend=0, append=0)
    begins = np.flatnonzero(edges == 1)
    ends = np.flatnonzero(edges == -1)
    lengths = ends - begins
    if not lengths.size or lengths.max() < _SHORTEST_FRAMES:
        return None
    longest = int(lengths.argmax())
    begin = first + int(begins[longest])
    end = first + int(ends[longest])
    return (begin + end) * _FRAME // 2


SLACK_S: Final = 1.0
"""Uncertainty of word times at the edge of a window."""

NEAR_S: Final = 0.35
"""Two windows' times of one word mostly differ by less, and two words' times by more."""

_MIN_SHARE: Final = 0.3

_OFF_S: Final = 0.1
"""Difference of two windows' times of one moment."""


def find_splice_point(
    left: Sequence[Word], right: Sequence[Word], start_s: float, end_s: float
) -> tuple[int, int]:
    """Return how many words of the left window to keep, and where to go on in the right one.

    Words that both heard are paired in order: by text and time; else two in a row by text alone;
    else by time alone, one of them misheard. The pair nearest to the middle of the overlap is the
    splice point: the left window's words up to it, the right window's after it, the word itself
    from the window whose edge is farther away. Where a pair has only its time in common, one window
    may have taken a whole sentence for a word: words of the better one where the other has none
    still belong to it. Without any pair no word was heard twice, and all are kept.

    The overlap lasts from `start_s` to `end_s`. Keep `left[:n]` and `right[m:]` for `(n, m)`.
    """
    first = next(
        (index for index, word in enumerate(left) if word.end_s > start_s - SLACK_S),
        len(left),
    )
    after = next(
        (index for index, word in enumerate(right) if word.start_s >= end_s + SLACK_S),
        len(right),
    )
    pairs, texts_match = _pair_words(left[first:], right[:after], end_s - start_s)
    if not pairs:
        return len(left), 0
    middle_s = (start_s + end_s) / 2
    n_left, n_right = min(
        ((first + i, j) for i, j in pairs),
        key=lambda pair: abs(_middle_of(left[pair[0]]) - middle_s),
    )
    # The window whose edge is farther away heard the word better.
    is_left_better = _middle_of(left[n_left]) < middle_s
    if is_left_better:
        n_left += 1
        n_right += 1
    if texts_match:
        return n_left, n_right
    if is_left_better:
        while n_left < len(left) and (
            n_right == len(right) or left[n_left].end_s <= right[n_right].start_s
        ):
            n_left += 1
    else:
        while n_right > 0 and (
            n_left == 0 or right[n_right - 1].start_s >= left[n_left - 1].end_s
        ):
            n_right -= 1
    return n_left, n_right


def _pair_words(
    left: Sequence[Word], right: Sequence[Word], farthest_s: float
) -> tuple[list[tuple[int, int]], bool]:
    """Return index pairs in order by the surest evidence, and whether their texts match.

    `farthest_s` is the most that two times of one word may differ, however wrong.
    """
    plain_left = [_to_plain(word.text) for word in left]
    plain_right = [_to_plain(word.text) for word in right]

    def is_same_text(i: int, j: int) -> bool:
        """Return whether two words have the same text; not beyond either end."""
        is_inside = 0 <= i < len(left) and 0 <= j < len(right)
        return is_inside and plain_left[i] == plain_right[j]

    def nearness(i: int, j: int, limit_s: float) -> float:
        """Return 1 for the same time down to 0 at the limit; a little more inside it."""
        distance_s = abs(_middle_of(left[i]) - _middle_of(right[j]))
        if distance_s > limit_s:
            return 0.0
        return 0.1 + 1 - distance_s / limit_s

    def text_and_time(i: int, j: int) -> float:
        return nearness(i, j, NEAR_S) if is_same_text(i, j) else 0.0

    def text_in_a_row(i: int, j: int) -> float:
        """Two words in a row are no chance; their times may be useless."""
        is_in_a_row = is_same_text(i - 1, j - 1) or is_same_text(i + 1, j + 1)
        if not is_same_text(i, j) or not is_in_a_row:
            return 0.0
        gap_s = -_shared_s(left[i], right[j])
        if gap_s > farthest_s:
            return 0.0
        return 0.1 + nearness(i, j, SLACK_S)

    def time_alone(i: int, j: int) -> float:
        """One of the two was misheard."""
        shared_s = _shared_s(left[i], right[j]) + _OFF_S
        shorter_s = min(_length_s(left[i]), _length_s(right[j]))
        share = shared_s / max(shorter_s, 1e-3)  # a word may have no length
        return share if share >= _MIN_SHARE else 0.0

    for evidence in (text_and_time, text_in_a_row, time_alone):
        likeness = []
        for i in range(len(left)):
            likeness.append([evidence(i, j) for j in range(len(right))])
        pairs = match_in_order(likeness)
        if pairs:
            return pairs, evidence is not time_alone
    return [], False


def match_in_order(likeness: list[list[float]]) -> list[tuple[int, int]]:
    """Return pairs of rising indices with the largest sum."""
    n_left = len(likeness)
    n_right = len(likeness[0]) if likeness else 0
    # Of each pair of rests of the two rows, the largest sum.
    score = [[0.0] * (n_right + 1) for _ in range(n_left + 1)]
    for i in range(n_left - 1, -1, -1):
        for j in range(n_right - 1, -1, -1):
            together = likeness[i][j] + score[i + 1][j + 1]
            score[i][j] = max(together, score[i + 1][j], score[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < n_left and j < n_right:
        value = likeness[i][j]
        if value > 0 and score[i][j] == value + score[i + 1][j + 1]:
            pairs.append((i, j))
            i += 1
            j += 1
        elif score[i][j] == score[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _shared_s(first: Word, second: Word) -> float:
    """Return the time that two words have in common; negative if a gap is between them."""
    return min(first.end_s, second.end_s) - max(first.start_s, second.start_s)


def _length_s(word: Word) -> float:
    return word.end_s - word.start_s


def _middle_of(word: Word) -> float:
    return (word.start_s + word.end_s) / 2


def _to_plain(text: str) -> str:
    """Return letters and digits in lower case; a mark alone is itself."""
    letters = "".join(c for c in text.casefold() if c.isalnum())
    return letters or text.strip()


DEFAULT_OVERLAP_S: Final = 2.0

_SEARCHED_OVERLAPS: Final = 1.5
"""Overlaps before the end that are searched for a pause: on average no window is wasted."""

_HALF_SAMPLE_S: Final = 0.5 / SAMPLE_RATE_HZ


@dataclass(eq=False)
class OverlapPlanner(WindowPlanner):
    """Windows from pause to pause, or at a fixed distance.

    Words at the edge of a window are cut and misheard, and a decoder makes up how they go on. So a
    window ends in a pause where there is one near its end. Elsewhere neighbours overlap: both
    contain the words there, one of them whole, and the splice point decides which to keep. An
    overlap of 0 gives adjacent windows, pause or not.

    Attributes:
        ends_in_pauses: else all windows overlap: one that a pause makes shorter lacks context.
    """

    overlap_s: float
    ends_in_pauses: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Windows that share more than half would hear a word three times.
        self._overlap = min(round(self.overlap_s * SAMPLE_RATE_HZ), self._content // 2)
        self._last: WindowResult | None = None
        """The result whose segments the next window may cut."""

    @property
    def pending(self) -> Sequence[Segment]:
        """The last window's segments."""
        return () if self._last is None else self._last.segments

    def windows(self) -> Iterator[Window]:
        """Yield the windows of each clip; only those that overlap need words."""
        for clip in self.clips:
            position = clip.start
            n_shared = 0  # samples that a window has in common with the one before it
            is_first = True
            while True:
                # No search between windows that overlap: the first one ended within speech.
                start = position if n_shared else self._find_start(position, clip)
                if start is None:
                    break
                n_least = 1 if is_first else MIN_SAMPLES + n_shared
                audio = self._read(start, clip, n_least)
                if audio is None:
                    break
                needs_words = n_shared > 0
                n_shared = self._overlap
                if n_shared and self._goes_on(start + self._content, clip):
                    pause = self._find_pause(audio)
                    if pause is None:
                        needs_words = True
                    else:
                        audio = audio[:pause]
                        n_shared = 0
                yield Window(audio, start / SAMPLE_RATE_HZ, needs_words=needs_words)
                position = start + audio.size - n_shared
                is_first = False

    def _find_pause(self, audio: FloatArray) -> int | None:
        """Return the sample of a window's audio to end it at, in a pause near its end."""
        if not self.ends_in_pauses:
            return None
        n_searched = round(_SEARCHED_OVERLAPS * self._overlap)
        return find_silence(audio, self._content - n_searched)

    def _goes_on(self, position: int, clip: Clip) -> bool:
        """Return whether enough audio for another window follows."""
        end = position + MIN_SAMPLES
        return (clip.end is None or clip.end >= end) and self.buffer.reaches(end - 1)

    def take(self, result: WindowResult) -> list[Segment]:
        """Splice with the previous window, whose segments are final then."""
        if self._overlap == 0:
            return list(result.segments)
        last = self._last
        self._last = result
        if last is None:
            return []
        if result.window.start_s > last.window.end_s - _HALF_SAMPLE_S:
            return list(last.segments)  # behind a pause, or a new clip
        n_left, n_right = _find_splice_of_windows(last, result)
        self._last = replace(result, segments=_cut_segments(result, n_right, None))
        return list(_cut_segments(last, 0, n_left))

    def finish(self) -> list[Segment]:
        """Return the last window's segments."""
        last = self._last
        self._last = None
        return [] if last is None else list(last.segments)


def _find_splice_of_windows(left: WindowResult, right: WindowResult) -> tuple[int, int]:
    """Return the splice point of two windows in words, never within a written word.

    Parts such as "T" and "-Rex" are timed as words of their own.
    """
    left_words = _group_words(left)
    right_words = _group_words(right)
    n_left, n_right = find_splice_point(
        [_as_one(parts) for parts in left_words],
        [_as_one(parts) for parts in right_words],
        right.window.start_s,
        left.window.end_s,
    )
    n_parts_left = sum(len(parts) for parts in left_words[:n_left])
    n_parts_right = sum(len(parts) for parts in right_words[:n_right])
    return n_parts_left, n_parts_right


def _group_words(result: WindowResult) -> list[list[Word]]:
    """Return a window's words, each with the parts that no blank precedes."""
    is_spaced = result.language not in UNSPACED_LANGUAGES
    groups: list[list[Word]] = []
    for segment in result.segments:
        for word in segment.words:
            if groups and is_spaced and not word.text.startswith(" "):
                groups[-1].append(word)
            else:
                groups.append([word])
    return groups


def _as_one(parts: Sequence[Word]) -> Word:
    """Return the parts of a written word as one."""
    if len(parts) == 1:
        return parts[0]
    text = "".join(part.text for part in parts)
    return replace(parts[0], text=text, end_s=parts[-1].end_s)


def _cut_segments(
    result: WindowResult, first: int, end: int | None
) -> tuple[Segment, ...]:
    """Return the segments of words from `first` to before `end`, counted over all segments."""
    segments: list[Segment] = []
    n_before = 0
    for segment in result.segments:
        start = max(0, first - n_before)
        stop = None if end is None else max(0, end - n_before)
        words = segment.words[start:stop]
        n_before += len(segment.words)
        if len(words) == len(segment.words):
            segments.append(segment)
        elif words:
            segments.append(with_words(segment, words))
    return tuple(segments)
