"""Seeking as Whisper does: the next window begins where the last whole segment ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import FRAMES_PER_SECOND, SAMPLE_RATE_HZ, Segment
from whisper_hailo.decoding.option_groups import WordOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.clips import Clip
from whisper_hailo.transcription.longform.hallucination import drop_hallucinations
from whisper_hailo.transcription.longform.plan import MIN_SAMPLES
from whisper_hailo.transcription.longform.speech_gate import SpeechGate
from whisper_hailo.transcription.window import WindowResult, last_word_end

_HOP: Final = SAMPLE_RATE_HZ // FRAMES_PER_SECOND
_MIN_ADVANCE_FRAMES: Final = 2
"""A model that closes segments of nothing would otherwise never get to the end."""


class SeekPlan:
    """Windows that begin at the end of the last segment.

    Args:
        buffer: the recording.
        clips: the stretches to transcribe.
        plan: sizes of the windows.
        words: with words, the end of the last word is sought instead of the last timestamp.
        gate: finds where speech begins; `None` takes everything.
    """

    sequential = True
    pending: Sequence[Segment] = ()

    def __init__(
        self,
        buffer: AudioBuffer,
        clips: tuple[Clip, ...],
        plan: WindowPlan,
        words: WordOptions | None = None,
        gate: SpeechGate | None = None,
    ) -> None:
        self._buffer = buffer
        self._clips = clips
        self._plan = plan
        self._words = words
        self._gate = gate
        self._frame = 0
        self._last_speech_s = 0.0

    def windows(self) -> Iterator[Window]:
        """Windows from wherever the last one led to."""
        content = self._plan.content_samples
        for clip in self._clips:
            self._frame = max(self._frame, clip.start // _HOP)
            while True:
                at = self._frame * _HOP
                if self._gate is not None:
                    found = self._gate.find_start(self._buffer, at, clip.end)
                    if found is None:
                        break
                    self._frame = found // _HOP
                    at = self._frame * _HOP
                wanted = content if clip.end is None else min(content, clip.end - at)
                least = 1 if at == 0 else MIN_SAMPLES
                if wanted < least or not self._buffer.reaches(at + least - 1):
                    break
                yield Window(self._buffer.read(at, wanted), at / SAMPLE_RATE_HZ, is_sought=True)

    def take(self, result: WindowResult) -> list[Segment]:
        """Advance, and give the window's segments."""
        window, before = result.window, self._frame
        whole = before + -(-window.audio.size // _HOP)
        if result.silent:
            self._frame = whole
            return []
        segments = list(result.segments)
        at_end = result.ends_alone or result.advance_s >= window.content_s
        frame = whole if at_end else before + round(result.advance_s * FRAMES_PER_SECOND)
        if self._words is not None:
            last_s = result.last_word_end_s
            if not result.ends_alone and last_s is not None and last_s > window.start_s:
                frame = round(last_s * FRAMES_PER_SECOND)
            if self._words.hallucination_silence_s is not None:
                silence_s = self._words.hallucination_silence_s
                kept = drop_hallucinations(
                    result,
                    silence_s,
                    last_speech_s=self._last_speech_s,
                    full_s=self._plan.content_samples / SAMPLE_RATE_HZ,
                )
                segments = list(kept.segments)
                if kept.seek_s is not None:
                    frame = round(kept.seek_s * FRAMES_PER_SECOND)
            if len(segments) < len(result.segments):  # the rest was made up
                last_s = last_word_end(segments)
            self._last_speech_s = last_s or self._last_speech_s
        self._frame = max(frame, before + min(_MIN_ADVANCE_FRAMES, whole - before))
        return [s for s in segments if s.end_s > s.start_s]

    def finish(self) -> list[Segment]:
        return []
