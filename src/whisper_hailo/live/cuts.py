"""Where a running segment is cut that no pause ends: at a clause, at its length, at its text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferWord
from whisper_hailo.live.segmenter import Segmenter

_WORD_TIME_ERROR_S: Final = 0.08
"""Word times are that far off either way."""

_MIN_REST_S: Final = 0.2
"""What follows a cut is at least this long, so that a word that has just begun is not cut off."""

STALL_S: Final = 2.5
"""So much speech without a new word is speech that the text leaves out."""

_LATEST_TEXT_S: Final = 1.3
"""A word is shown no later than this after its end: the interval of partials, and what they hold
back."""


_SHOWN_EARLY_S: Final = 0.4
"""A word may be shown so much before its end."""


def find_cut(
    segmenter: Segmenter, words: Sequence[BufferWord], settled_s: float
) -> int:
    """Return the best place to cut the running segment: at least 1 sample, fewer than there are.

    It lies behind every committed word, all said by `settled_s`, and in the segment's second half:
    the quietest place between two words where their times are known, otherwise the quietest place
    there is.
    """
    n_samples = segmenter.n_samples
    first = max(round(settled_s * SAMPLE_RATE_HZ), n_samples // 2)
    last = max(first + 1, n_samples - round(_MIN_REST_S * SAMPLE_RATE_HZ))
    gaps = []
    for word, next_word in pairwise(words):
        if word.end_s is not None and next_word.start_s is not None:
            begin = max(
                first, round((word.end_s - _WORD_TIME_ERROR_S) * SAMPLE_RATE_HZ)
            )
            end = min(
                last, round((next_word.start_s + _WORD_TIME_ERROR_S) * SAMPLE_RATE_HZ)
            )
            if begin < end:
                gaps.append((begin, end))
    if not gaps:
        gaps = [(first, last)]
    candidates = [segmenter.find_quietest(begin, end) for begin, end in gaps]
    place, _ = min(candidates, key=lambda candidate: candidate[1])
    return min(place, n_samples - 1)


def find_clause_cut(
    segmenter: Segmenter, words: Sequence[BufferWord], n_behind: int
) -> int | None:
    """Return the quietest place before the last `n_behind` words; `None` without their times."""
    if not 0 < n_behind < len(words):
        return None
    last_s = words[-n_behind - 1].end_s
    next_s = words[-n_behind].start_s
    if last_s is None or next_s is None:
        return None
    begin = max(1, round((last_s - _WORD_TIME_ERROR_S) * SAMPLE_RATE_HZ))
    end = min(
        segmenter.n_samples - round(_MIN_REST_S * SAMPLE_RATE_HZ),
        round((next_s + _WORD_TIME_ERROR_S) * SAMPLE_RATE_HZ),
    )
    if begin >= end:
        return None
    place, _ = segmenter.find_quietest(begin, end)
    return place


def find_text_end(
    segmenter: Segmenter, words: Sequence[BufferWord], grown_s: float
) -> int:
    """Return where speech goes on without text: the quietest place near the end of the last word.

    The last word was shown first at `grown_s`. An aligner may stretch it over what follows, so that
    a later end is not believed, only its start.
    """
    earliest_s = grown_s - _LATEST_TEXT_S
    latest_s = grown_s
    if words and words[-1].start_s is not None and words[-1].end_s is not None:
        if words[-1].end_s <= grown_s + _SHOWN_EARLY_S:
            earliest_s = words[-1].end_s - _WORD_TIME_ERROR_S
            latest_s = max(latest_s, words[-1].end_s + _WORD_TIME_ERROR_S)
        else:
            earliest_s = max(earliest_s, words[-1].start_s + _MIN_REST_S)
    begin = max(1, round(earliest_s * SAMPLE_RATE_HZ))
    last = segmenter.n_samples - round(_MIN_REST_S * SAMPLE_RATE_HZ)
    end = max(begin + 1, min(last, round(latest_s * SAMPLE_RATE_HZ)))
    place, _ = segmenter.find_quietest(begin, end)
    return min(place, segmenter.n_samples - 1)


def find_rest(
    segmenter: Segmenter, words: Sequence[BufferWord], start_s: float
) -> int | None:
    """Return the quietest place between the last word and speech without text from `start_s` on.

    `None` if that speech is not behind the text.
    """
    last_s = words[-1].end_s
    if last_s is None or start_s < last_s:
        return None
    begin = max(1, round((last_s - _WORD_TIME_ERROR_S) * SAMPLE_RATE_HZ))
    end = max(begin + 1, round(start_s * SAMPLE_RATE_HZ))
    place, _ = segmenter.find_quietest(begin, end)
    return place if place < segmenter.n_samples else None
