"""Long recordings: options, clips, the audio buffer, the base of window planners, and seeking."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, starmap, zip_longest
from typing import TYPE_CHECKING, Final

import numpy as np

from whisper_hailo.audio.vad import SPEECH_THRESHOLD
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_choices, require_valid
from whisper_hailo.core.types import FRAMES_PER_SECOND, SAMPLE_RATE_HZ, FloatArray, Segment
from whisper_hailo.decoding.options import setting

if TYPE_CHECKING:
    from whisper_hailo.transcription.longform.speech import SpeechGate
    from whisper_hailo.transcription.window import WindowResult


@dataclass(frozen=True, slots=True)
class Clip:
    """A stretch of a recording in samples; `end` is `None` for its end."""

    start: int
    end: int | None


WHOLE = (Clip(0, None),)


def parse_clips(text: str) -> tuple[Clip, ...]:
    """Parse OpenAI Whisper's notation `start,end,start,end,...` in seconds."""
    if not text.strip():
        return WHOLE
    wrong = ""
    try:
        times_s = [float(part) for part in text.split(",")]
    except ValueError:
        times_s, wrong = [], "not all of it is numbers"
    if not all(math.isfinite(time) and time >= 0 for time in times_s):
        wrong = "a time is negative or no number"
    elif any(end <= start for start, end in zip(times_s[::2], times_s[1::2], strict=False)):
        wrong = "an end is not after its start"
    elif any(later < earlier for earlier, later in pairwise(times_s)):
        wrong = "a clip begins before the one before it ends"
    if wrong:
        raise OptionError(
            f"--clip-timestamps is {text!r}: {wrong}; expected start,end[,start,end...] in "
            "seconds, rising; the last end may be left out"
        )
    samples = [round(time * SAMPLE_RATE_HZ) for time in times_s]
    return tuple(starmap(Clip, zip_longest(samples[::2], samples[1::2])))


STRATEGIES: Final = ("auto", "seek", "overlap", "vad", "consecutive")

LONG: Final = "Long recordings"
"""Topic of help."""

_VAD: Final = "Speech detection"

MIN_SAMPLES: Final = 160
"""One log-mel frame: a shorter rest of audio gets no window."""


@dataclass(frozen=True, slots=True)
class LongOptions:
    """How recordings longer than a window are cut.

    Attributes:
        strategy: `auto` ends windows in pauses and overlaps them where there is none, but seeks to
            skip silence.
        overlap_s: `None` is 2 s, at most a third of the window's content.
        speech_pad_s: after speech at most the silence that ended it.
        trim_window: `None`: where the encoder can and silence keys stand for the rest.
    """

    strategy: str = flag("auto", "How windows are cut", LONG, name="--long", choices=STRATEGIES)
    overlap_s: float | None = setting(
        None, "Overlap of windows.", LONG, name="--overlap", metavar="S", shown="2"
    )
    clips: tuple[Clip, ...] = flag(
        WHOLE,
        "Transcribe only these ranges, in seconds.",
        LONG,
        name="--clip-timestamps",
        metavar="S,E,...",
        shown="all",
        parse=parse_clips,
    )
    skip_silence: bool = flag(True, "Start windows where speech begins.", _VAD)
    vad_threshold: float = flag(SPEECH_THRESHOLD, "Speech probability threshold.", _VAD)
    min_silence_s: float = setting(
        0.5, "Silence that ends speech.", _VAD, name="--vad-min-silence", metavar="S"
    )
    speech_pad_s: float = setting(
        0.2, "Padding around speech.", _VAD, name="--vad-speech-pad", metavar="S"
    )
    trim_window: bool | None = setting(
        None, "Encode only what of a window is filled.", LONG, shown="where the encoder can"
    )

    def __post_init__(self) -> None:
        require_choices(self)
        fits = self.overlap_s is None or 0 < self.overlap_s <= 15
        require_valid(self, "overlap_s", fits, "more than 0 s, at most 15 s")
        require_valid(self, "vad_threshold", 0 < self.vad_threshold < 1, "0 to 1")
        for name in ("min_silence_s", "speech_pad_s"):
            require_valid(self, name, 0 <= getattr(self, name) <= 10, "0 to 10 s")


class AudioBuffer:
    """Reads `(n,)` float32 blocks of a stream forwards and drops what is passed."""

    def __init__(self, blocks: Iterator[FloatArray]) -> None:
        self._blocks = blocks
        self._held = np.empty(0, dtype=np.float32)
        self._start = 0

    def read(self, start: int, n_samples: int) -> FloatArray:
        """Return up to `n_samples` float32 samples from `start`; drop those before it."""
        self.forget(start)
        return self.peek(start, n_samples).copy()

    def peek(self, start: int, n_samples: int) -> FloatArray:
        """Return a view of up to `n_samples` float32 samples from `start`."""
        self._fill(start + n_samples)
        first = start - self._start
        audio: FloatArray = self._held[first : first + n_samples]
        return audio

    def reaches(self, position: int) -> bool:
        """Return whether there is a sample at this position."""
        self._fill(position + 1)
        return self.n_samples > position

    @property
    def n_samples(self) -> int:
        """Samples seen so far: all of them, once the stream has ended."""
        return self._start + self._held.size

    @property
    def n_held(self) -> int:
        """Samples in memory."""
        return self._held.size

    @property
    def duration_s(self) -> float:
        return self.n_samples / SAMPLE_RATE_HZ

    def drain(self) -> None:
        """Read to the end without keeping anything, so that the length is known."""
        for block in self._blocks:
            self._start, self._held = self.n_samples, block
        self.forget(self.n_samples)

    def _fill(self, end: int) -> None:
        blocks, n_missing = [], end - self.n_samples
        while n_missing > 0 and (block := next(self._blocks, None)) is not None:
            blocks.append(block)
            n_missing -= block.size
        if blocks:
            self._held = np.concatenate([self._held, *blocks])

    def forget(self, before: int) -> None:
        """Drop the samples before a position, reading up to it if necessary."""
        while self.n_samples < before and (block := next(self._blocks, None)) is not None:
            self._start, self._held = self.n_samples, block
        n_passed = min(before - self._start, self._held.size)
        self._start += n_passed
        self._held = self._held[n_passed:]


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
        """Yield the windows; those of a sequential plan after `take` of the previous one."""
        raise NotImplementedError

    def take(self, result: WindowResult) -> list[Segment]:
        """Take the result of the next window; return the segments that are final now."""
        return list(result.segments)

    def finish(self) -> list[Segment]:
        """Return the segments left after the last window."""
        return []

    def _find_start(self, at: int, clip: Clip) -> int | None:
        """Return the sample where speech starts, if it does; without a gate, the given one."""
        return at if self.gate is None else self.gate.find_start(self.buffer, at, clip.end)

    def _read(self, at: int, clip: Clip, least: int) -> FloatArray | None:
        """Return a window's audio; `None` where less than the `least` is left."""
        wanted = self._content if clip.end is None else min(self._content, clip.end - at)
        if wanted < least or not self.buffer.reaches(at + least - 1):
            return None
        return self.buffer.read(at, wanted)


_HOP: Final = SAMPLE_RATE_HZ // FRAMES_PER_SECOND
_MIN_ADVANCE_FRAMES: Final = 2
"""Keeps a model that closes empty segments from staying in place."""


@dataclass(eq=False)
class SeekPlan(WindowPlanner):
    """Windows that start as Whisper's do: at the end of the last whole segment, or last word."""

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
