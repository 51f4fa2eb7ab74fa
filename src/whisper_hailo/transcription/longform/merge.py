"""Where one window's words end and the next one's begin, so that none is lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.types import Word

SLACK_S: Final = 1.0
"""Times of words are that uncertain at the edge of a window."""

NEAR_S: Final = 0.35
"""Two windows' times of one word mostly differ by less, and two words' times by more."""

_MIN_SHARE: Final = 0.3

_OFF_S: Final = 0.1
"""Two windows' times of one moment; what is left of a word at an edge is hardly longer."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A word that both windows heard."""

    left: int
    right: int


def find_splice_point(
    left: Sequence[Word], right: Sequence[Word], start_s: float, end_s: float
) -> tuple[int, int]:
    """How many words of the left window to keep, and at which of the right window to go on.

    Words that both heard are paired in order: by text and time; where no such pair is found by
    text alone, two words in a row; at last by time alone, one of them misheard. The pair nearest
    to the middle of the overlap, farthest from both edges, is the splice point: the left window's
    words up to it, the right window's after it, the word itself from the one whose edge is farther
    away.
    Where a pair has nothing but its time in common, one window may have taken a whole sentence for
    a word: what the better one heard where the other heard nothing goes on belonging to it.
    Without any pair no word was heard twice, and all are kept.

    Args:
        left: words of the earlier window, in order.
        right: words of the later one.
        start_s: start of the later window.
        end_s: end of the earlier one, after `start_s`.

    Returns:
        keep `left[:n]` and `right[m:]` for `(n, m)`.
    """
    first = next((i for i, w in enumerate(left) if w.end_s > start_s - SLACK_S), len(left))
    after = next((i for i, w in enumerate(right) if w.start_s >= end_s + SLACK_S), len(right))
    pairs, read_alike = _paired(left[first:], right[:after], end_s - start_s)
    if not pairs:
        return len(left), 0
    middle_s = (start_s + end_s) / 2
    best = min(pairs, key=lambda pair: abs(_middle(left[first + pair.left]) - middle_s))
    # The window whose edge is farther away heard it better.
    own = int(_middle(left[first + best.left]) < middle_s)
    n, m = first + best.left + own, best.right + own
    if read_alike:
        return n, m
    while own and n < len(left) and (m == len(right) or left[n].end_s <= right[m].start_s):
        n += 1
    while not own and m > 0 and (n == 0 or right[m - 1].start_s >= left[n - 1].end_s):
        m -= 1
    return n, m


def _paired(
    left: Sequence[Word], right: Sequence[Word], farthest_s: float
) -> tuple[list[_Pair], bool]:
    """The best pairing that keeps the order of both sides, by the surest evidence there is.

    Args:
        left: words of the earlier window.
        right: words of the later one.
        farthest_s: however useless their times, two of one word are not farther apart.

    Returns:
        the pairs, and whether they read alike, or have only their times in common.
    """
    n, m = len(left), len(right)
    reads = [[_plain(a.text) == _plain(b.text) for b in right] for a in left]
    apart_s = [[abs(_middle(a) - _middle(b)) for b in right] for a in left]

    def in_a_row(i: int, j: int) -> bool:
        before = i > 0 and j > 0 and reads[i - 1][j - 1]
        return before or (i + 1 < n and j + 1 < m and reads[i + 1][j + 1])

    def sure(i: int, j: int) -> float:
        return _nearness(apart_s[i][j], NEAR_S) if reads[i][j] else 0.0

    def likely(i: int, j: int) -> float:
        """Two words in a row are no chance; their times may be useless."""
        a, b = left[i], right[j]
        between_s = max(a.start_s, b.start_s) - min(a.end_s, b.end_s)
        if between_s > farthest_s or not (reads[i][j] and in_a_row(i, j)):
            return 0.0
        return 0.1 + _nearness(apart_s[i][j], SLACK_S)

    def same_time(i: int, j: int) -> float:
        """One of the two was misheard."""
        a, b = left[i], right[j]
        shared_s = min(a.end_s, b.end_s) - max(a.start_s, b.start_s) + _OFF_S
        share = shared_s / max(min(a.end_s - a.start_s, b.end_s - b.start_s), 1e-3)
        return share if share >= _MIN_SHARE else 0.0

    for evidence in (sure, likely, same_time):
        pairs = _best_in_order([[evidence(i, j) for j in range(m)] for i in range(n)])
        if pairs:
            return pairs, evidence is not same_time
    return [], False


def _nearness(apart_s: float, limit_s: float) -> float:
    """From 1 for the same time down to 0 at the limit; a little more inside it."""
    return 0.1 + 1 - apart_s / limit_s if apart_s <= limit_s else 0.0


def _best_in_order(likeness: list[list[float]]) -> list[_Pair]:
    """Pairs of rising indices with the largest sum."""
    n, m = len(likeness), len(likeness[0]) if likeness else 0
    score = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            together = likeness[i][j] + score[i + 1][j + 1]
            score[i][j] = max(together, score[i + 1][j], score[i][j + 1])
    pairs: list[_Pair] = []
    i = j = 0
    while i < n and j < m:
        value = likeness[i][j]
        if value > 0 and score[i][j] == value + score[i + 1][j + 1]:
            pairs.append(_Pair(i, j))
            i, j = i + 1, j + 1
        elif score[i][j] == score[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _middle(word: Word) -> float:
    return (word.start_s + word.end_s) / 2


def _plain(text: str) -> str:
    """Letters and digits in lower case; a mark alone is itself."""
    letters = "".join(c for c in text.casefold() if c.isalnum())
    return letters or text.strip()
