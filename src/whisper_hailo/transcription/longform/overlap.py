"""Windows side by side or overlapping, for decoders that write no times.

Words at the edge of a window are cut and misheard, and a decoder makes up how they go on. So a
window ends in a pause where there is one near its end. Elsewhere neighbours overlap, and both hear
the words there, one of them whole; `merge` decides which to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment
from whisper_hailo.decoding.words.sentences import with_words
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.clips import Clip
from whisper_hailo.transcription.longform.merge import find_splice_point
from whisper_hailo.transcription.longform.plan import MIN_SAMPLES
from whisper_hailo.transcription.longform.silence import find_silence
from whisper_hailo.transcription.longform.speech_gate import SpeechGate
from whisper_hailo.transcription.window import WindowResult

DEFAULT_OVERLAP_S: Final = 2.0

_LOOKED_AT: Final = 1.5
"""Pauses are looked for in so many overlaps before the end: on average no window is wasted."""

_HALF_SAMPLE_S: Final = 0.5 / SAMPLE_RATE_HZ


class OverlapPlan:
    """Windows from pause to pause, or at a fixed distance.

    Args:
        buffer: the recording.
        clips: the stretches to transcribe.
        plan: sizes of the windows.
        overlap_s: seconds that neighbours share where there is no pause between them; 0 for
            windows side by side, pause or not.
        gate: finds where speech begins; `None` takes everything.
        sequential: each window is shown the text of the one before.
    """

    def __init__(
        self,
        buffer: AudioBuffer,
        clips: tuple[Clip, ...],
        plan: WindowPlan,
        overlap_s: float,
        gate: SpeechGate | None = None,
        *,
        sequential: bool = False,
    ) -> None:
        self._buffer = buffer
        self._clips = clips
        self._content = plan.content_samples
        self._overlap = min(round(overlap_s * SAMPLE_RATE_HZ), self._content // 3)
        self._gate = gate
        self._held: WindowResult | None = None
        self.sequential = sequential

    @property
    def pending(self) -> Sequence[Segment]:
        """The last window's segments, whose end the next window may hear better."""
        return () if self._held is None else self._held.segments

    def windows(self) -> Iterator[Window]:
        """Windows until each clip's end; only those that overlap need words."""
        for clip in self._clips:
            at, shared, is_first = clip.start, 0, True
            while True:
                if self._gate is not None and not shared:
                    found = self._gate.find_start(self._buffer, at, clip.end)
                    if found is None:
                        break
                    at = found
                wanted = self._content if clip.end is None else min(self._content, clip.end - at)
                least = 1 if is_first else MIN_SAMPLES + shared
                if wanted < least or not self._buffer.reaches(at + least - 1):
                    break
                audio, joined = self._buffer.read(at, wanted), shared
                shared = self._overlap
                if shared and self._goes_on(clip, at):
                    looked_at = round(_LOOKED_AT * shared)
                    pause = find_silence(audio, self._content - looked_at)
                    if pause is not None:
                        audio, shared = audio[:pause], 0
                    joined += shared
                yield Window(audio, at / SAMPLE_RATE_HZ, needs_words=bool(joined))
                at, is_first = at + audio.size - shared, False

    def _goes_on(self, clip: Clip, at: int) -> bool:
        end = at + self._content + MIN_SAMPLES
        return (clip.end is None or clip.end >= end) and self._buffer.reaches(end - 1)

    def take(self, result: WindowResult) -> list[Segment]:
        """Join with the window before; that one's segments are final then."""
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
        self._held = replace(result, segments=_cut(result, n_right, None))
        return list(_cut(held, 0, n_left))

    def finish(self) -> list[Segment]:
        held, self._held = self._held, None
        return [] if held is None else list(held.segments)


def _cut(result: WindowResult, first: int, after: int | None) -> tuple[Segment, ...]:
    """Segments of the window's words from the first up to another, counted over all segments."""
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
