"""A recording on its way from windows to segments."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

from whisper_hailo.audio import AudioSource, open_audio
from whisper_hailo.audio.vad import make_detector
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.longform.overlap import DEFAULT_OVERLAP_S, OverlapPlanner
from whisper_hailo.transcription.longform.planner import WindowPlanner
from whisper_hailo.transcription.longform.seek import SeekPlanner
from whisper_hailo.transcription.longform.speech import SpeechPlanner
from whisper_hailo.transcription.longform.speech_gate import SpeechGate
from whisper_hailo.transcription.segments import round_times
from whisper_hailo.transcription.window import Context, WindowRequest, WindowResult

logger = logging.getLogger(__name__)


def make_planner(
    buffer: AudioBuffer, plan: WindowPlan, options: DecodingOptions, long: LongOptions
) -> WindowPlanner:
    """Return the window planner of one recording; `auto` overlaps."""
    sequential = options.prompts.condition_on_previous_text
    if long.strategy == "vad":
        detector = make_detector()
        return SpeechPlanner(buffer, long.clips, plan, long, detector, sequential=sequential)
    gate = None
    if long.skip_silence:
        gate = SpeechGate(make_detector(), long.vad_threshold)
    if long.strategy == "seek":
        return SeekPlanner(buffer, long.clips, plan, options.word_timestamps, gate=gate)
    overlap_s = DEFAULT_OVERLAP_S if long.overlap_s is None else long.overlap_s
    overlap_s = 0.0 if long.strategy == "consecutive" else overlap_s
    return OverlapPlanner(buffer, long.clips, plan, overlap_s, gate=gate, sequential=sequential)


@dataclass(slots=True)
class FairShare:
    """How many windows a client's recordings have been given."""

    n_windows: int = 0


@dataclass(eq=False)
class Recording(Closing):
    """A recording being transcribed.

    Args:
        priority: lower goes first, within it the client whose `share` had least.
        engine: decodes its windows; `None` is that of the schedule.

    Attributes:
        segments: final segments so far.
        failure: why it could not be transcribed.
        abandoned: why its text is not wanted any more; may be set from any thread.
    """

    source: AudioSource
    context: Context
    plan: WindowPlan
    options: DecodingOptions
    long: LongOptions
    priority: int = field(default=0, kw_only=True)
    engine: DecoderEngine | None = field(default=None, kw_only=True)
    share: FairShare = field(default_factory=FairShare, kw_only=True)

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._n_waiting = 0
        self._exhausted = False
        self.has_begun = False
        self.failure: Exception | None = None
        self.abandoned: Exception | None = None
        self.segments: list[Segment] = []
        self.duration_s = 0.0

    def open(self) -> Self:
        with self.context.clock.stage("total"), ExitStack() as opened:
            self._stream = opened.enter_context(open_audio(self.source))
            self._buffer = AudioBuffer(self._stream.blocks(SAMPLE_RATE_HZ))
            self._planner = make_planner(self._buffer, self.plan, self.options, self.long)
            self._stack = opened.pop_all()
        self._windows = self._planner.windows()
        self.context.sequential = self._planner.sequential
        self.name = self._stream.name
        return self

    @property
    def language(self) -> str:
        """Code; English where there was nothing to detect it from."""
        likeliest = self.context.likeliest_language
        return "en" if likeliest == AUTO_LANGUAGE else likeliest

    @property
    def stream_duration_s(self) -> float | None:
        """Length by the file's header."""
        return self._stream.duration_s

    @property
    def sequential(self) -> bool:
        """Whether the next window depends on the result of the previous one."""
        detects = self.context.language == AUTO_LANGUAGE and not self.options.detect_each_window
        return self.context.sequential or detects

    @property
    def done(self) -> bool:
        """All windows are cut and their results are back."""
        return self._exhausted and not self._n_waiting

    def next(self) -> WindowRequest | None:
        """Return the next window; `None` at the end, or before the last one's result."""
        if self._exhausted or (self._n_waiting and self.sequential):
            return None
        with self.context.clock.stage("total"):
            if (window := next(self._windows, None)) is not None:
                self._n_waiting += 1
                return WindowRequest(window, self.context)
            self._exhausted = True
            self._buffer.drain()
        self.duration_s = self._buffer.duration_s
        for clip in self.long.clips:
            if clip.start >= self._buffer.n_samples:
                behind_s = clip.start / SAMPLE_RATE_HZ
                told = "%s is %.1f s long; --clip-timestamps asks for what is behind %g s"
                logger.warning(told, self.name, self.duration_s, behind_s)
        return None

    def next_or_fail(self) -> WindowRequest | None:
        """Return the next window as `next` does; an error is the recording's."""
        if self.failure is None:
            with self.failing():
                return self.next()
        return None

    def take(self, result: WindowResult) -> None:
        """Take the result of a window, in order."""
        self._n_waiting -= 1
        final = self._planner.take(result)
        self._give(final)
        self.context.remember(result, final, self._planner.pending)

    def _give(self, final: Sequence[Segment]) -> None:
        """Add final segments, with words only if asked for."""
        if not self.options.word_timestamps:
            final = [replace(segment, words=()) for segment in final]
        self.segments += map(round_times, final)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Let the recording fail with an error of the block."""
        try:
            yield
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Record the error and close the file."""
        self.failure = error
        self.close()

    def finish(self) -> None:
        """Add the last segments, unless it failed, and close the file."""
        if not self.failure:
            self._give(self._planner.finish())
        self.close()

    def close(self) -> None:
        self._stack.close()

    def free_audio(self) -> None:
        """Drop the audio and all that reads it, once no further window is wanted."""
        for name in ("source", "_stream", "_buffer", "_windows", "_planner"):
            vars(self).pop(name, None)
