"""A run: recordings transcribed with the same pipeline and options."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from whisper_hailo.audio import AudioSource
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import BufferText, Segment, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer, partial_text
from whisper_hailo.transcription.pipeline import Pipeline
from whisper_hailo.transcription.recording import FairShare, Recording
from whisper_hailo.transcription.schedule import Progress, RecordingList, Schedule, WindowSource
from whisper_hailo.transcription.window import WindowRequest, WindowResult
from whisper_hailo.transcription.window_cache import WindowCache

RecordingT = TypeVar("RecordingT", bound=Recording)


@dataclass(eq=False)
class TranscriptionRun:
    """What all recordings of one call share; its options are checked before."""

    parts: Pipeline
    options: DecodingOptions
    long: LongOptions
    batch_size: int
    load_ms: float
    progress: Progress | None = None
    memory: WindowCache | None = None

    def __post_init__(self) -> None:
        parts, options, batch_size = self.parts, self.options, self.batch_size
        trims = self.long.trim_window is True
        self._stages = parts.stages(options, trim_window=trims)
        self._share = FairShare()
        self._settings = parts.settings(options, self.long, batch_size)

    def recording(self, source: AudioSource) -> Recording:
        return self.recording_of(Recording, source)

    def recording_of(
        self,
        kind: type[RecordingT],
        source: AudioSource,
        *,
        priority: int = 0,
        share: FairShare | None = None,
    ) -> RecordingT:
        """Return a new recording of some class; `share` defaults to one for the whole run."""
        engine, parts = self._stages.engine, self.parts
        return kind(
            source,
            engine.context(),
            parts.plan,
            self.options,
            self.long,
            priority=priority,
            engine=engine,
            share=share or self._share,
        )

    def request(self, running: PartialBuffer) -> WindowRequest:
        """Return the window of live audio."""
        return self.parts.partial_request(self._stages.engine, running)

    def text(self, result: WindowResult) -> BufferText:
        """Return the text of a window of live audio."""
        return partial_text(result, self.parts.tokenizer)

    def schedule(self, source: WindowSource) -> Schedule:
        return Schedule(
            source,
            self._stages,
            self.batch_size,
            self.progress,
            encode_ahead=self.parts.encode_ahead,
            cache=self.memory,
        )

    def transcript(self, recording: Recording) -> Transcript:
        """Return the transcript of a recording, complete or as far as it is."""
        context = recording.context
        return Transcript(
            audio=recording.name,
            duration_s=recording.duration_s,
            language=recording.language,
            task=self.options.task,
            segments=tuple(recording.segments),
            timings=replace(context.clock.timings(), load_ms=self.load_ms),
            settings=self._settings,
            language_probs=context.language_probs,
        )


class Segments(Iterator[Segment]):
    """Final segments, transcribed as they are asked for."""

    def __init__(self, run: TranscriptionRun, recording: Recording) -> None:
        self._run = run
        self._recording = recording
        self._segments = _transcribe(run, recording)

    def __iter__(self) -> Iterator[Segment]:
        return self._segments

    def __next__(self) -> Segment:
        return next(self._segments)

    def close(self) -> None:
        """Stop the work and close the file."""
        self._segments.close()

    @property
    def language(self) -> str | None:
        """Code; `None` until it is detected."""
        language = self._recording.context.likeliest_language
        return None if language == AUTO_LANGUAGE else language

    @property
    def language_probs(self) -> dict[str, float]:
        """Code to probability, likeliest first; empty where it was given or is not known yet."""
        return self._recording.context.language_probs

    @property
    def transcript(self) -> Transcript:
        """The transcript so far; complete when all segments have come."""
        return self._run.transcript(self._recording)


def _transcribe(run: TranscriptionRun, recording: Recording) -> Generator[Segment, None, None]:
    n_given = 0
    for _ in run.schedule(RecordingList([recording])).steps():
        new = recording.segments[n_given:]
        n_given += len(new)
        yield from new
    if recording.failure is not None:
        raise recording.failure
