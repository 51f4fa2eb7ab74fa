"""Text that was made up: odd words beside long silences are dropped, and the silence skipped.

Source of the rules and their numbers: OpenAI Whisper, `hallucination_silence_threshold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.types import Segment, Word
from whisper_hailo.transcription.window import WindowResult

_MARKS: Final = frozenset("\"'“¿([{-\"'.。,，!！?？:：”)]}、")  # noqa: RUF001
_UNLIKELY: Final = 0.15
_SHORT_S: Final = 0.133
_SHORT_WEIGHT: Final = 15.0
_LONG_S: Final = 2.0
_LOOKED_AT: Final = 8
_ODD: Final = 3.0
_EDGE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a window.

    Attributes:
        segments: those that are believed.
        seek_s: where the next window begins; `None` leaves it to the caller.
    """

    segments: tuple[Segment, ...]
    seek_s: float | None = None


def word_oddity(word: Word) -> float:
    """How unlike speech a word is: improbable, very short or very long."""
    length_s = word.end_s - word.start_s
    score = 1.0 if word.probability < _UNLIKELY else 0.0
    score += max(0.0, _SHORT_S - length_s) * _SHORT_WEIGHT
    return score + max(0.0, length_s - _LONG_S)


def is_odd(segment: Segment | None) -> bool:
    """Whether a segment's first words are mostly odd."""
    if segment is None or not segment.words:
        return False
    words = [word for word in segment.words if word.text not in _MARKS][:_LOOKED_AT]
    score = sum(word_oddity(word) for word in words)
    return score >= _ODD or score + 0.01 >= len(words)


def drop_hallucinations(
    result: WindowResult, silence_s: float, *, last_speech_s: float, full_s: float
) -> Kept:
    """Drop odd segments that stand beside silence.

    Args:
        result: a window's result, with words.
        silence_s: a silence longer than this is suspicious.
        last_speech_s: end of the last word before this window.
        full_s: audio that a full window takes, in seconds; with less of it the recording ends.
    """
    start_s, segments = result.window.start_s, result.segments
    window_end_s = start_s + full_s
    seek_s: float | None = None
    last_s = result.last_word_end_s
    if not result.ends_alone and last_s is not None and last_s > start_s:
        near_end = window_end_s - last_s <= silence_s
        seek_s = start_s + result.window.content_s if near_end else last_s
    first = _next_with_words(segments)
    if first is not None and is_odd(first) and first.start_s - start_s > silence_s:
        return Kept((), first.start_s)
    cut = _first_made_up(result, silence_s, last_speech_s, window_end_s)
    if cut is None:
        return Kept(segments, seek_s)
    seek_s = max(start_s + 1.0, segments[cut].start_s)
    if result.window.end_s - segments[cut].end_s < silence_s and result.window.content_s < full_s:
        seek_s = result.window.end_s
    return Kept(segments[:cut], seek_s)


def _first_made_up(
    result: WindowResult, silence_s: float, last_speech_s: float, window_end_s: float
) -> int | None:
    """Index of the first odd segment with silence, or more oddity, on both sides."""
    start_s, segments = result.window.start_s, result.segments
    before_s = last_speech_s
    for index, segment in enumerate(segments):
        if not segment.words:
            continue
        if is_odd(segment):
            following = _next_with_words(segments[index + 1 :])
            after_s = following.words[0].start_s if following else result.window.end_s
            silent_before = (
                segment.start_s - before_s > silence_s
                or segment.start_s < silence_s
                or segment.start_s - start_s < _EDGE_S
            )
            silent_after = (
                after_s - segment.end_s > silence_s
                or is_odd(following)
                or window_end_s - segment.end_s < _EDGE_S
            )
            if silent_before and silent_after:
                return index
        before_s = segment.end_s
    return None


def _next_with_words(segments: Sequence[Segment]) -> Segment | None:
    return next((segment for segment in segments if segment.words), None)
