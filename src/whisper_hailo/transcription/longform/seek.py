"""Seeking: windows that start where the text of the previous one ended, as Whisper's do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import FRAMES_PER_SECOND, SAMPLE_RATE_HZ, Segment
from whisper_hailo.transcription.longform.planner import MIN_SAMPLES, WindowPlanner
from whisper_hailo.transcription.window import WindowResult

_HOP: Final = SAMPLE_RATE_HZ // FRAMES_PER_SECOND
"""Samples of a log-mel frame."""

_MIN_ADVANCE_FRAMES: Final = 2
"""Keeps a model that closes empty segments from staying in place."""


@dataclass(eq=False)
class SeekPlanner(WindowPlanner):
    """Windows that start at the end of the last whole segment, or of the last word.

    Positions are whole log-mel frames, as in OpenAI Whisper.
    """

    word_timestamps: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sequential = True
        self._frame = 0

    def windows(self) -> Iterator[Window]:
        """Yield windows, each from the frame that the previous result led to."""
        for clip in self.clips:
            self._frame = max(self._frame, clip.start // _HOP)
            while True:
                speech_start = self._find_start(self._frame * _HOP, clip)
                if speech_start is None:
                    break
                self._frame = speech_start // _HOP
                start = self._frame * _HOP
                # A recording shorter than a frame still gets a window.
                audio = self._read(start, clip, 1 if start == 0 else MIN_SAMPLES)
                if audio is None:
                    break
                yield Window(audio, start / SAMPLE_RATE_HZ, is_sought=True)

    def take(self, result: WindowResult) -> list[Segment]:
        """Advance, and return the window's segments."""
        before = self._frame
        n_frames = -(-result.window.audio.size // _HOP)  # rounded up
        if result.silent:
            self._frame = before + n_frames
            return []
        n_least = min(_MIN_ADVANCE_FRAMES, n_frames)
        self._frame = max(self._next_frame(result, n_frames), before + n_least)
        return [
            segment for segment in result.segments if segment.end_s > segment.start_s
        ]

    def _next_frame(self, result: WindowResult, n_frames: int) -> int:
        """Return the frame that a window of `n_frames` leads to."""
        window = result.window
        last_word_s = result.last_word_end_s
        if (
            self.word_timestamps
            and not result.ends_alone
            and last_word_s is not None
            and last_word_s > window.start_s
        ):
            # As in OpenAI Whisper, where words are timed.
            return round(last_word_s * FRAMES_PER_SECOND)
        if result.ends_alone or result.advance_s >= window.content_s:
            return self._frame + n_frames
        return self._frame + round(result.advance_s * FRAMES_PER_SECOND)
