"""Where a segment that has become too long is cut: between words, where it is quiet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from whisper_hailo.core.buffers import BufferWord
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioning.segmenter import Segmenter

_SLACK_S: Final = 0.08
"""Word times are that far off either way."""

_LEAST_KEPT_S: Final = 0.2
"""What follows a cut is at least this long; a word that has just begun is not cut off."""


def cut_place(segmenter: Segmenter, words: Sequence[BufferWord], settled_s: float) -> int:
    """The best place to cut the running segment.

    It lies behind every committed word and in the segment's second half. Where the times of words
    are known it is the quietest place between two of them, otherwise the quietest place there is.

    Args:
        segmenter: with the running segment.
        words: of the whole segment, with their times where the engine gives them.
        settled_s: a moment by which all committed words had been said.

    Returns:
        samples of the segment that come before the cut; at least 1, and fewer than there are.
    """
    n_samples = segmenter.n_samples
    least = max(round(settled_s * SAMPLE_RATE_HZ), n_samples // 2)
    most = max(least + 1, n_samples - round(_LEAST_KEPT_S * SAMPLE_RATE_HZ))
    quiet = [
        segmenter.quietest(max(begin, least), min(end, most))
        for begin, end in _gaps(words)
        if max(begin, least) < min(end, most)
    ]
    if not quiet:
        quiet = [segmenter.quietest(least, most)]
    place = min(quiet, key=lambda candidate: candidate[1])[0]
    return min(place, n_samples - 1)


def _gaps(words: Sequence[BufferWord]) -> list[tuple[int, int]]:
    """From the end of each word to the start of the next, in samples, with some slack."""
    gaps = []
    for word, following in pairwise(words):
        if word.end_s is not None and following.start_s is not None:
            begin_s, end_s = word.end_s - _SLACK_S, following.start_s + _SLACK_S
            gaps.append((round(begin_s * SAMPLE_RATE_HZ), round(end_s * SAMPLE_RATE_HZ)))
    return gaps
