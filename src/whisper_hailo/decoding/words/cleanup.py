"""Words into their segments, and times that attention got wrong put right.

Attention has no idea of pauses: a word beside one is stretched over it. OpenAI Whisper mends the
worst of that with what it knows of the segment and of the usual length of a word; so do we.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.option_groups import WordOptions
from whisper_hailo.decoding.words.split import join_punctuation

_SENTENCE_ENDS: Final = ".。!！?？"  # noqa: RUF001 - full-width marks are meant
_LONGEST_MEDIAN_S: Final = 0.7
_PAUSE_MEDIANS: Final = 4
_SLACK_S: Final = 0.5


def words_into_segments(
    segments: Sequence[Segment],
    aligned: Sequence[Word],
    window: Window,
    options: WordOptions,
    *,
    eot: int,
    last_speech_s: float,
) -> list[Segment]:
    """Segments with their words, and with times that follow them.

    Args:
        segments: of one window, in order.
        aligned: the window's words, with times in the window: their lengths are compared there,
            as OpenAI Whisper's are, for hours later a tie is broken by another last bit.
        window: where they were heard.
        options: punctuation.
        eot: id of end-of-transcript: text ids are below it.
        last_speech_s: end of the last word before this window.

    Source: OpenAI Whisper, `add_word_timestamps`.
    """
    lengths = [word.end_s - word.start_s for word in aligned if word.end_s > word.start_s]
    median_s = min(_LONGEST_MEDIAN_S, float(np.median(lengths)) if lengths else 0.0)
    words = join_punctuation(
        _shorten_at_sentence_ends(aligned, 2 * median_s), options.prepended, options.appended
    )
    result, at = [], 0
    for segment in segments:
        n_text = sum(token < eot for token in segment.tokens)
        taken, own = 0, []
        while at < len(words) and taken < n_text:
            if words[at].text:
                own.append(_placed(words[at], window))
            taken += len(words[at].tokens)
            at += 1
        timed = _mend(segment, own, median_s, last_speech_s)
        if timed.words:
            last_speech_s = timed.end_s
        result.append(timed)
    return result


def _shorten_at_sentence_ends(words: Sequence[Word], longest_s: float) -> list[Word]:
    """A mark at a sentence's end, or the word after it, takes no pause."""
    mended = list(words)
    for i in range(1, len(mended)):
        word = mended[i]
        if word.end_s - word.start_s <= longest_s:
            continue
        if word.text in _SENTENCE_ENDS:
            mended[i] = replace(word, end_s=word.start_s + longest_s)
        elif mended[i - 1].text in _SENTENCE_ENDS:
            mended[i] = replace(word, start_s=word.end_s - longest_s)
    return mended


def _placed(word: Word, window: Window) -> Word:
    """With times in the recording."""
    start_s = window.locate(word.start_s, is_start=True)
    end_s = max(start_s, window.locate(word.end_s))
    return replace(word, start_s=round(start_s, 2), end_s=round(end_s, 2))


def _mend(segment: Segment, words: list[Word], median_s: float, last_speech_s: float) -> Segment:
    """First and last word against the segment's own times; then the segment against them."""
    if not words:
        return segment
    _mend_after_pause(words, median_s, last_speech_s)
    first = words[0]
    start_s, end_s = first.start_s, segment.end_s
    if segment.start_s < first.end_s and segment.start_s - _SLACK_S > first.start_s:
        start_s = segment.start_s
        begin_s = max(0.0, min(first.end_s - median_s, segment.start_s))
        words[0] = replace(first, start_s=begin_s)
    last = words[-1]
    if segment.end_s > last.start_s and segment.end_s + _SLACK_S < last.end_s:
        words[-1] = replace(last, end_s=max(last.start_s + median_s, segment.end_s))
    else:
        end_s = last.end_s
    return replace(segment, start_s=start_s, end_s=end_s, words=tuple(words))


def _mend_after_pause(words: list[Word], median_s: float, last_speech_s: float) -> None:
    """The first two words after a pause are not longer than twice the median."""
    longest_s, first = 2 * median_s, words[0]
    if first.end_s - last_speech_s <= _PAUSE_MEDIANS * median_s:
        return
    long_pair = len(words) > 1 and words[1].end_s - first.start_s > 2 * longest_s
    if first.end_s - first.start_s <= longest_s and not long_pair:
        return
    if len(words) > 1 and words[1].end_s - words[1].start_s > longest_s:
        seam_s = words[1].end_s - longest_s
        words[0] = replace(first, end_s=seam_s)
        words[1] = replace(words[1], start_s=seam_s)
    words[0] = replace(words[0], start_s=words[0].end_s - longest_s)
