"""Windows that overlap or are adjacent, for decoders that write no times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.words import with_words
from whisper_hailo.transcription.longform.plan import MIN_SAMPLES, WindowPlanner
from whisper_hailo.transcription.window import WindowResult

_FRAME: Final = SAMPLE_RATE_HZ // 50
_SHORTEST_FRAMES: Final = 10
"""0.2 s: the closure of a consonant is shorter."""
_SHARE: Final = 0.25
"""A pause is below this share of the way from quiet frames to loud ones, in dB."""
_LEAST_DB: Final = 6.0
"""A smaller range is a steady sound, not speech with pauses."""


def find_silence(audio: FloatArray, start: int) -> int | None:
    """Return the middle of the longest pause after sample `start` of a window, or `None`."""
    frames = audio[: audio.size // _FRAME * _FRAME].reshape(-1, _FRAME).astype(np.float64)
    if len(frames) == 0:
        return None
    loudness_db = 10 * np.log10((frames**2).mean(axis=1) + 1e-10)
    quiet_db, loud_db = np.quantile(loudness_db, [0.1, 0.9])
    if loud_db - quiet_db < _LEAST_DB:
        return None
    is_quiet = loudness_db <= quiet_db + _SHARE * (loud_db - quiet_db)
    first = -(-start // _FRAME)
    edges = np.diff(is_quiet[first:].astype(np.int8), prepend=0, append=0)
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = ends - begins
    if not lengths.size or lengths.max() < _SHORTEST_FRAMES:
        return None
    longest = int(lengths.argmax())
    return (2 * first + int(begins[longest] + ends[longest])) * _FRAME // 2


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
    first = next((i for i, w in enumerate(left) if w.end_s > start_s - SLACK_S), len(left))
    after = next((i for i, w in enumerate(right) if w.start_s >= end_s + SLACK_S), len(right))
    pairs, read_alike = _pair_words(left[first:], right[:after], end_s - start_s)
    if not pairs:
        return len(left), 0
    middle_s = (start_s + end_s) / 2
    n, m = min(pairs, key=lambda pair: abs(_middle_of(left[first + pair[0]]) - middle_s))
    # The window whose edge is farther away heard it better.
    own = int(_middle_of(left[first + n]) < middle_s)
    n, m = first + n + own, m + own
    if read_alike:
        return n, m
    while own and n < len(left) and (m == len(right) or left[n].end_s <= right[m].start_s):
        n += 1
    while not own and m > 0 and (n == 0 or right[m - 1].start_s >= left[n - 1].end_s):
        m -= 1
    return n, m


def _pair_words(
    left: Sequence[Word], right: Sequence[Word], farthest_s: float
) -> tuple[list[tuple[int, int]], bool]:
    """Return index pairs in order by the surest evidence, and whether their texts match.

    `farthest_s` is the most that two times of one word may differ, however wrong.
    """
    n, m = len(left), len(right)
    reads = [[_to_plain(a.text) == _to_plain(b.text) for b in right] for a in left]

    def nearness(i: int, j: int, limit_s: float) -> float:
        """Return 1 for the same time down to 0 at the limit; a little more inside it."""
        apart_s = abs(_middle_of(left[i]) - _middle_of(right[j]))
        return 0.1 + 1 - apart_s / limit_s if apart_s <= limit_s else 0.0

    def sure(i: int, j: int) -> float:
        return nearness(i, j, NEAR_S) if reads[i][j] else 0.0

    def likely(i: int, j: int) -> float:
        """Two words in a row are no chance; their times may be useless."""
        a, b = left[i], right[j]
        between_s = max(a.start_s, b.start_s) - min(a.end_s, b.end_s)
        before = i > 0 and j > 0 and reads[i - 1][j - 1]
        in_a_row = before or (i + 1 < n and j + 1 < m and reads[i + 1][j + 1])
        if between_s > farthest_s or not (reads[i][j] and in_a_row):
            return 0.0
        return 0.1 + nearness(i, j, SLACK_S)

    def same_time(i: int, j: int) -> float:
        """One of the two was misheard."""
        a, b = left[i], right[j]
        shared_s = min(a.end_s, b.end_s) - max(a.start_s, b.start_s) + _OFF_S
        share = shared_s / max(min(a.end_s - a.start_s, b.end_s - b.start_s), 1e-3)
        return share if share >= _MIN_SHARE else 0.0

    for evidence in (sure, likely, same_time):
        pairs = match_in_order([[evidence(i, j) for j in range(m)] for i in range(n)])
        if pairs:
            return pairs, evidence is not same_time
    return [], False


def match_in_order(likeness: list[list[float]]) -> list[tuple[int, int]]:
    """Return pairs of rising indices with the largest sum."""
    n, m = len(likeness), len(likeness[0]) if likeness else 0
    score = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            together = likeness[i][j] + score[i + 1][j + 1]
            score[i][j] = max(together, score[i + 1][j], score[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < n and j < m:
        value = likeness[i][j]
        if value > 0 and score[i][j] == value + score[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif score[i][j] == score[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _middle_of(word: Word) -> float:
    return (word.start_s + word.end_s) / 2


def _to_plain(text: str) -> str:
    """Return letters and digits in lower case; a mark alone is itself."""
    letters = "".join(c for c in text.casefold() if c.isalnum())
    return letters or text.strip()


DEFAULT_OVERLAP_S: Final = 2.0

_LOOKED_AT: Final = 1.5
"""Overlaps before the end that are searched for a pause: on average no window is wasted."""

_HALF_SAMPLE_S: Final = 0.5 / SAMPLE_RATE_HZ


@dataclass(eq=False)
class OverlapPlan(WindowPlanner):
    """Windows from pause to pause, or at a fixed distance.

    Words at the edge of a window are cut and misheard, and a decoder makes up how they go on. So a
    window ends in a pause where there is one near its end. Elsewhere neighbours overlap: both
    contain the words there, one of them whole, and the splice point decides which to keep. An
    overlap of 0 gives adjacent windows, pause or not.
    """

    overlap_s: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._overlap = min(round(self.overlap_s * SAMPLE_RATE_HZ), self._content // 3)
        self._held: WindowResult | None = None

    @property
    def pending(self) -> Sequence[Segment]:
        """The last window's segments."""
        return () if self._held is None else self._held.segments

    def windows(self) -> Iterator[Window]:
        """Yield the windows of each clip; only those that overlap need words."""
        for clip in self.clips:
            at, shared, is_first = clip.start, 0, True
            while (start := at if shared else self._find_start(at, clip)) is not None:
                audio = self._read(start, clip, 1 if is_first else MIN_SAMPLES + shared)
                if audio is None:
                    break
                at, joined, shared = start, shared, self._overlap
                goes_on_to = at + self._content + MIN_SAMPLES
                is_within = clip.end is None or clip.end >= goes_on_to
                if shared and is_within and self.buffer.reaches(goes_on_to - 1):
                    looked_at = round(_LOOKED_AT * shared)
                    pause = find_silence(audio, self._content - looked_at)
                    if pause is not None:
                        audio, shared = audio[:pause], 0
                    joined += shared
                yield Window(audio, at / SAMPLE_RATE_HZ, needs_words=bool(joined))
                at, is_first = at + audio.size - shared, False

    def take(self, result: WindowResult) -> list[Segment]:
        """Splice with the previous window, whose segments are final then."""
        if self._overlap == 0:
            return list(result.segments)
        held, self._held = self._held, result
        if held is None:
            return []
        start_s, end_s = result.window.start_s, held.window.end_s
        if start_s > end_s - _HALF_SAMPLE_S:  # behind a pause, or a new clip
            return list(held.segments)
        left = [word for segment in held.segments for word in segment.words]
        right = [word for segment in result.segments for word in segment.words]
        n_left, n_right = find_splice_point(left, right, start_s, end_s)
        self._held = replace(result, segments=_cut_segments(result, n_right, None))
        return list(_cut_segments(held, 0, n_left))

    def finish(self) -> list[Segment]:
        held, self._held = self._held, None
        return [] if held is None else list(held.segments)


def _cut_segments(result: WindowResult, first: int, after: int | None) -> tuple[Segment, ...]:
    """Return the segments of words `first` to `after`, counted over all segments."""
    kept: list[Segment] = []
    at = 0
    for segment in result.segments:
        inside = slice(max(0, first - at), None if after is None else max(0, after - at))
        words = segment.words[inside]
        at += len(segment.words)
        if len(words) == len(segment.words):
            kept.append(segment)
        elif words:
            kept.append(with_words(segment, words))
    return tuple(kept)
