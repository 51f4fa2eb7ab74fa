"""Seeking as Whisper does: the next window starts where the last whole segment ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import FRAMES_PER_SECOND, SAMPLE_RATE_HZ, Segment
from whisper_hailo.transcription.longform.plan import MIN_SAMPLES, WindowPlanner
from whisper_hailo.transcription.window import WindowResult

_HOP: Final = SAMPLE_RATE_HZ // FRAMES_PER_SECOND
_MIN_ADVANCE_FRAMES: Final = 2
"""Keeps a model that closes empty segments from staying in place."""


@dataclass(eq=False)
class SeekPlan(WindowPlanner):
    """Windows that start at the end of the last segment; with words, of the last word."""

    words: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sequential = True
        self._frame = 0

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
        at_end = result.ends_alone or result.advance_s >= window.content_s
        frame = whole if at_end else before + round(result.advance_s * FRAMES_PER_SECOND)
        last_s = result.last_word_end_s
        if self.words and not result.ends_alone and last_s is not None and last_s > window.start_s:
            frame = round(last_s * FRAMES_PER_SECOND)
        self._frame = max(frame, before + min(_MIN_ADVANCE_FRAMES, whole - before))
        return [segment for segment in result.segments if segment.end_s > segment.start_s]
