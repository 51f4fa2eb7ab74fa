"""Seeking as Whisper does: the next window starts where the last whole segment ended.

Hallucinations are dropped by OpenAI Whisper's rules and numbers
(`hallucination_silence_threshold`): odd words next to long silences, which are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import FRAMES_PER_SECOND, SAMPLE_RATE_HZ, Segment, Word
from whisper_hailo.decoding.options import WordOptions
from whisper_hailo.transcription.longform.plan import MIN_SAMPLES, WindowPlanner
from whisper_hailo.transcription.window import WindowResult, last_word_end

_MARKS: Final = frozenset("\"'“¿([{-\"'.。,，!！?？:：”)]}、")  # noqa: RUF001
_UNLIKELY: Final = 0.15
_SHORT_S: Final = 0.133
_SHORT_WEIGHT: Final = 15.0
_LONG_S: Final = 2.0
_LOOKED_AT: Final = 8
_ODD: Final = 3.0
_EDGE_S: Final = 2.0


class Kept(NamedTuple):
    """Segments of a window that are kept, and where the next window starts, if decided."""

    segments: tuple[Segment, ...]
    seek_s: float | None = None


def word_oddity(word: Word) -> float:
    """Score how unlike speech a word is: improbable, very short or very long."""
    length_s = word.end_s - word.start_s
    score = 1.0 if word.probability < _UNLIKELY else 0.0
    score += max(0.0, _SHORT_S - length_s) * _SHORT_WEIGHT
    return score + max(0.0, length_s - _LONG_S)


def is_odd(segment: Segment | None) -> bool:
    """Return whether a segment's first words are mostly odd."""
    if segment is None or not segment.words:
        return False
    words = [word for word in segment.words if word.text not in _MARKS][:_LOOKED_AT]
    score = sum(word_oddity(word) for word in words)
    return score >= _ODD or score + 0.01 >= len(words)


def drop_hallucinations(
    result: WindowResult, silence_s: float, *, last_speech_s: float, full_s: float
) -> Kept:
    """Drop odd segments next to a silence of more than `silence_s`.

    Speech before this window ended at `last_speech_s`; a full window has `full_s` of audio.
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
    """Return the index of the first odd segment with silence or odd text on both sides."""
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


_HOP: Final = SAMPLE_RATE_HZ // FRAMES_PER_SECOND
_MIN_ADVANCE_FRAMES: Final = 2
"""Keeps a model that closes empty segments from staying in place."""


@dataclass(eq=False)
class SeekPlan(WindowPlanner):
    """Windows that start at the end of the last segment; with words, of the last word."""

    words: WordOptions | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sequential = True
        self._frame = 0
        self._last_speech_s = 0.0

    def windows(self) -> Iterator[Window]:
        for clip in self.clips:
            self._frame = max(self._frame, clip.start // _HOP)
            while (start := self._find_start(self._frame * _HOP, clip)) is not None:
                self._frame = start // _HOP
                at = self._frame * _HOP
                audio = self._read(at, clip, 1 if at == 0 else MIN_SAMPLES)
                if audio is None:
                    break
                yield Window(audio, at / SAMPLE_RATE_HZ, is_sought=True)

    def take(self, result: WindowResult) -> list[Segment]:
        """Advance, and return the window's segments."""
        window, before = result.window, self._frame
        whole = before + -(-window.audio.size // _HOP)
        if result.silent:
            self._frame = whole
            return []
        segments = list(result.segments)
        at_end = result.ends_alone or result.advance_s >= window.content_s
        frame = whole if at_end else before + round(result.advance_s * FRAMES_PER_SECOND)
        if self.words is not None:
            last_s = result.last_word_end_s
            if not result.ends_alone and last_s is not None and last_s > window.start_s:
                frame = round(last_s * FRAMES_PER_SECOND)
            if (silence_s := self.words.hallucination_silence_s) is not None:
                last_speech_s, full_s = self._last_speech_s, self._content / SAMPLE_RATE_HZ
                kept, seek_s = drop_hallucinations(
                    result, silence_s, last_speech_s=last_speech_s, full_s=full_s
                )
                segments = list(kept)
                if seek_s is not None:
                    frame = round(seek_s * FRAMES_PER_SECOND)
            if len(segments) < len(result.segments):  # the rest was made up
                last_s = last_word_end(segments)
            self._last_speech_s = last_s or self._last_speech_s
        self._frame = max(frame, before + min(_MIN_ADVANCE_FRAMES, whole - before))
        return [s for s in segments if s.end_s > s.start_s]
