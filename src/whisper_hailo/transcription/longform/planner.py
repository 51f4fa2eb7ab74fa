"""The base of window planners, which cut one recording into windows and take their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import FloatArray, Segment
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import Clip
from whisper_hailo.transcription.longform.speech_gate import SpeechGate
from whisper_hailo.transcription.window import WindowResult

MIN_SAMPLES: Final = 160
"""One log-mel frame: a shorter rest of audio gets no window."""


@dataclass(eq=False)
class WindowPlanner:
    """Cuts one recording into windows, and takes their results.

    Attributes:
        gate: finds where windows with speech start; `None` transcribes silence, too.
        sequential: each window depends on the result of the previous one.
    """

    buffer: AudioBuffer
    clips: tuple[Clip, ...]
    plan: WindowPlan
    gate: SpeechGate | None = field(default=None, kw_only=True)
    sequential: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._content = self.plan.content_samples

    @property
    def pending(self) -> Sequence[Segment]:
        """Segments held back, whose end the next window may change."""
        return ()

    def windows(self) -> Iterator[Window]:
        """Yield the windows; those of a sequential planner after `take` of the previous one."""
        raise NotImplementedError

    def take(self, result: WindowResult) -> list[Segment]:
        """Take the result of the next window; return the segments that are final now."""
        return list(result.segments)

    def finish(self) -> list[Segment]:
        """Return the segments left after the last window."""
        return []

    def _find_start(self, position: int, clip: Clip) -> int | None:
        """Return the sample where speech starts, if it does; without a gate, the given one."""
        if self.gate is None:
            return position
        return self.gate.find_start(self.buffer, position, clip.end)

    def _read(self, start: int, clip: Clip, n_least: int) -> FloatArray | None:
        """Return a window's audio; `None` where fewer than `n_least` samples are left."""
        n_samples = self._content
        if clip.end is not None:
            n_samples = min(n_samples, clip.end - start)
        if n_samples < n_least or not self.buffer.reaches(start + n_least - 1):
            return None
        return self.buffer.read(start, n_samples)
