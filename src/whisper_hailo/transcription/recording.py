"""A recording on its way from windows to segments."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import numpy as np

from whisper_hailo.audio import AudioSource, open_audio
from whisper_hailo.audio.stream import AudioStream, open_repeatedly
from whisper_hailo.audio.vad import make_detector
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    Segment,
    UntranscribedSpeech,
)
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.longform.overlap import (
    DEFAULT_OVERLAP_S,
    OverlapPlanner,
)
from whisper_hailo.transcription.longform.planner import WindowPlanner
from whisper_hailo.transcription.longform.seams import SentenceJoiner
from whisper_hailo.transcription.longform.seek import SeekPlanner
from whisper_hailo.transcription.longform.speech import SpeechPlanner
from whisper_hailo.transcription.longform.speech_gate import SpeechGate
from whisper_hailo.transcription.longform.windows_ahead import (
    OpenedAudio,
    WindowsAhead,
)
from whisper_hailo.transcription.segments import round_times, start_after
from whisper_hailo.transcription.untranscribed import subtract_text
from whisper_hailo.transcription.window import Context, WindowRequest, WindowResult

if TYPE_CHECKING:
    from whisper_hailo.speakers.attribution import SpeakerAttribution

logger = logging.getLogger(__name__)


def make_planner(
    buffer: AudioBuffer, plan: WindowPlan, options: DecodingOptions, long: LongOptions
) -> WindowPlanner:
    """Return the window planner of one recording; `auto` overlaps."""
    sequential = options.prompts.condition_on_previous_text
    if long.strategy == "vad":
        detector = make_detector()
        return SpeechPlanner(
            buffer, long.clips, plan, long, detector, sequential=sequential
        )
    gate = None
    if long.skip_silence:
        gate = SpeechGate(make_detector(), long.vad_threshold)
    if long.strategy == "seek":
        return SeekPlanner(buffer, long.clips, plan, options.word_timestamps, gate=gate)
    if long.strategy == "consecutive":
        overlap_s = 0.0
    elif long.overlap_s is not None:
        overlap_s = long.overlap_s
    elif long.strategy == "dense":
        overlap_s = plan.content_samples / 2 / SAMPLE_RATE_HZ
    else:
        overlap_s = min(DEFAULT_OVERLAP_S, plan.content_samples // 3 / SAMPLE_RATE_HZ)
    return OverlapPlanner(
        buffer,
        long.clips,
        plan,
        overlap_s,
        ends_in_pauses=long.strategy != "dense",
        gate=gate,
        sequential=sequential,
    )


def _drain_at_end(windows: Iterator[Window], buffer: AudioBuffer) -> Iterator[Window]:
    """Yield windows, and read the rest of the audio, whose length is known then."""
    yield from windows
    buffer.drain()


SpeakerSearch: TypeAlias = Callable[[Iterable[FloatArray]], "SpeakerAttribution"]
"""Takes the audio in `(n_samples,)` pieces, in order."""


_LONG_S: Final = 120.0
"""From this length on a window that is decoded alone costs 2 % of the processor time at most."""


@dataclass(slots=True)
class FairShare:
    """How many windows a client's recordings have been given.

    Attributes:
        takes_turns: the recordings take turns, too; else each is transcribed before the next one.
    """

    n_windows: int = 0
    takes_turns: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _OpenAudio:
    """What a recording holds from `open` on, until its audio is freed.

    Attributes:
        files: closes the stream.
    """

    stream: AudioStream
    buffer: AudioBuffer
    planner: WindowPlanner
    windows: Iterator[Window]
    files: ExitStack


@dataclass(eq=False)
class Recording(Closing):
    """A recording being transcribed.

    Args:
        priority: lower goes first, within it the client whose `share` had least.
        engine: decodes its windows; `None` is that of the schedule.
        find_speakers: tells its speakers apart, from all of its audio; `None`: nobody asked.

    Attributes:
        segments: final segments so far.
        failure: why it could not be transcribed.
        abandoned: why its text is not wanted any more; may be set from any thread.
        n_drawn: windows that batches have been given.
    """

    source: AudioSource | OpenedAudio
    context: Context
    plan: WindowPlan
    options: DecodingOptions
    long: LongOptions
    priority: int = field(default=0, kw_only=True)
    engine: DecoderEngine | None = field(default=None, kw_only=True)
    share: FairShare = field(default_factory=FairShare, kw_only=True)
    find_speakers: SpeakerSearch | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._audio: _OpenAudio | None = None
        self._speakers: SpeakerAttribution | None = None
        self._n_waiting = 0
        self._exhausted = False
        self.n_drawn = 0
        self.failure: Exception | None = None
        self.abandoned: Exception | None = None
        self.segments: list[Segment] = []
        self._sentences = SentenceJoiner()
        self._windows_end_s = 0.0
        self._without_text: list[UntranscribedSpeech] = []
        self.name = ""
        self.duration_s = 0.0

    def open(self) -> Self:
        """Open the file, and find its speakers if asked for, before the first window.

        Raises:
            AudioError: the audio cannot be read.
        """
        with self.context.clock.stage("total"), ExitStack() as opened:
            stream, blocks = self._open_source(opened)
            buffer = AudioBuffer(blocks)
            planner = make_planner(buffer, self.plan, self.options, self.long)
            windows = planner.windows()
            if isinstance(self.source, OpenedAudio) and not planner.sequential:
                opened.pop_all()  # the thread closes it
                drained = _drain_at_end(windows, buffer)
                windows = opened.enter_context(WindowsAhead(drained, self.source))
            files = opened.pop_all()
            self._audio = _OpenAudio(stream, buffer, planner, windows, files)
        self.context.sequential = planner.sequential
        self.context.trusts_detector = self.long.skip_silence
        self.name = stream.name
        return self

    def _open_source(
        self, opened: ExitStack
    ) -> tuple[AudioStream, Iterator[FloatArray]]:
        """Return the stream and its blocks, closed by `opened`."""
        source = self.source
        if isinstance(source, OpenedAudio):
            opened.enter_context(source)
            return source.stream, source.read_blocks()
        open_source: Callable[[], AudioStream] = partial(open_audio, source)
        if self.find_speakers is not None:
            # The audio is read twice, so that segments come one by one with speakers too.
            open_source = opened.enter_context(open_repeatedly(source))
            with open_source() as stream:
                self._speakers = self.find_speakers(stream.blocks(SAMPLE_RATE_HZ))
        stream = opened.enter_context(open_source())
        return stream, stream.blocks(SAMPLE_RATE_HZ)

    @property
    def _open_audio(self) -> _OpenAudio:
        """The open audio, which `next`, `take` and `finish` need."""
        if self._audio is None:
            raise RuntimeError("the recording is not open")
        return self._audio

    @property
    def language(self) -> str:
        """Code; English where there was nothing to detect it from."""
        likeliest = self.context.likeliest_language
        return "en" if likeliest == AUTO_LANGUAGE else likeliest

    @property
    def stream_duration_s(self) -> float | None:
        """Length by the file's header."""
        return self._open_audio.stream.duration_s

    @property
    def sequential(self) -> bool:
        """True while the next window depends on the result of the previous one, or waits for it."""
        context = self.context
        is_detecting = context.language == AUTO_LANGUAGE and not context.detects_each
        # The first window of a long recording goes alone: on a slow machine a batch takes minutes,
        # and until it ends nothing can be printed, or kept of an interrupted run.
        is_first = context.n_windows == 0
        # A recording that failed may be freed while its windows are still in a batch.
        audio = self._audio
        duration_s = None if audio is None else audio.stream.duration_s
        is_long = (duration_s or 0.0) >= _LONG_S
        return context.sequential or is_detecting or (is_first and is_long)

    @property
    def is_ready(self) -> bool:
        """Whether the next window is there; one that is cut when it is drawn always is."""
        if (
            self.failure is not None
            or self.abandoned is not None
            or self._audio is None
        ):
            return True
        windows = self._audio.windows
        return not isinstance(windows, WindowsAhead) or windows.is_ready

    @property
    def done(self) -> bool:
        """True once all windows are cut and their results are back."""
        return self._exhausted and not self._n_waiting

    def next(self) -> WindowRequest | None:
        """Return the next window; `None` at the end, or before the last one's result."""
        if self._exhausted or (self._n_waiting and self.sequential):
            return None
        audio = self._open_audio
        with self.context.clock.stage("total"):
            window = next(audio.windows, None)
            if window is not None:
                self._n_waiting += 1
                return WindowRequest(window, self.context)
            self._exhausted = True
            audio.buffer.drain()
        self.duration_s = audio.buffer.duration_s
        self._warn_of_clips_behind_end(audio.buffer.n_samples)
        return None

    def _warn_of_clips_behind_end(self, n_samples: int) -> None:
        for clip in self.long.clips:
            if clip.start >= n_samples:
                logger.warning(
                    "%s is %.1f s long; --clip-timestamps asks for what is behind %g s",
                    self.name,
                    self.duration_s,
                    clip.start / SAMPLE_RATE_HZ,
                )

    def next_or_fail(self) -> WindowRequest | None:
        """Return the next window as `next` does; an error is the recording's."""
        if self.failure is None:
            with self.failing():
                return self.next()
        return None

    def take(self, result: WindowResult) -> None:
        """Take the result of a window, in order."""
        self._n_waiting -= 1
        planner = self._open_audio.planner
        final = planner.take(result)
        self._without_text += result.untranscribed
        following = planner.pending[0] if planner.pending else None
        overlaps = result.window.start_s < self._windows_end_s
        self._windows_end_s = result.window.end_s
        whole = self._sentences.take(final, following, overlaps=overlaps)
        self._add_segments(whole)
        self.context.remember(result, final, planner.pending)

    def _add_segments(self, final: Sequence[Segment]) -> None:
        """Add final segments, with words only if asked for."""
        for segment in final:
            # Words that nobody asked for only served to join windows.
            words = segment.words if self.options.word_timestamps else ()
            rounded = round_times(replace(segment, words=words))
            if self.segments:
                rounded = start_after(rounded, self.segments[-1].end_s)
            if self._speakers is None:
                self.segments.append(rounded)
            else:
                self.segments += self._speakers.attribute(rounded)

    @property
    def untranscribed(self) -> tuple[UntranscribedSpeech, ...]:
        """Speech without text, as far as the windows have come."""
        return subtract_text(self._without_text, self.segments)

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
        if self.failure is None:
            final = self._open_audio.planner.finish()
            self._add_segments(self._sentences.take(final, None, overlaps=False))
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._audio is not None:
            self._audio.files.close()
        elif isinstance(self.source, OpenedAudio):
            self.source.close()

    def free_audio(self) -> None:
        """Drop the audio and all that reads it, once no further window is wanted."""
        self._audio = None
        self.source = np.empty(0, dtype=np.float32)  # samples that a caller gave
