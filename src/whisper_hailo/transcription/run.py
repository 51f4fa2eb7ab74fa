"""A run: recordings transcribed with the same pipeline and options."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import TypeVar

from whisper_hailo.audio import AudioSource
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import BufferText, Segment, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio
from whisper_hailo.transcription.partials import PartialBuffer, partial_text
from whisper_hailo.transcription.pipeline import Pipeline
from whisper_hailo.transcription.recording import FairShare, Recording, SpeakerSearch
from whisper_hailo.transcription.schedule import (
    Progress,
    RecordingList,
    Schedule,
    WindowSource,
)
from whisper_hailo.transcription.window import WindowRequest, WindowResult
from whisper_hailo.transcription.window_cache import WindowCache

RecordingT = TypeVar("RecordingT", bound=Recording)


class TranscriptionRun:
    """What all recordings of one call share; options that cannot be honoured are refused."""

    def __init__(
        self,
        pipeline: Pipeline,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
        *,
        progress: Progress | None = None,
        cache: WindowCache | None = None,
        find_speakers: SpeakerSearch | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._options = options
        self._long = pipeline.resolve_long(options, long)
        self.stages = pipeline.stages(options, self._long)
        self._batch_size = pipeline.resolve_batch_size(batch_size)
        self._progress = progress
        self._cache = cache
        self._find_speakers = find_speakers
        self._share = FairShare()

    def recording(self, source: AudioSource) -> Recording:
        """Return a new recording, not opened yet."""
        return self.recording_of(Recording, source)

    def recording_of(
        self,
        kind: Callable[..., RecordingT],
        source: AudioSource | OpenedAudio,
        *,
        priority: int = 0,
    ) -> RecordingT:
        """Return a new recording of some class, which takes the arguments of `Recording`."""
        engine = self.stages.engine
        return kind(
            source,
            engine.context(),
            self._pipeline.plan,
            self._options,
            self._long,
            priority=priority,
            engine=engine,
            share=self._share,
            find_speakers=self._find_speakers,
        )

    def request(self, running: PartialBuffer) -> WindowRequest:
        """Return the window of live audio."""
        return running.request(
            self.stages.engine.context(), self._pipeline.plan.content_samples
        )

    def text(self, result: WindowResult) -> BufferText:
        """Return the text of a window of live audio."""
        return partial_text(result, self._pipeline.tokenizer)

    def schedule(self, source: WindowSource) -> Schedule:
        """Return the schedule of all recordings of a source."""
        return Schedule(
            source,
            self.stages,
            self._batch_size,
            self._progress,
            encode_ahead=self._pipeline.encode_ahead,
            cache=self._cache,
        )

    def transcript(self, recording: Recording) -> Transcript:
        """Return the transcript of a recording, complete or as far as it is."""
        context = recording.context
        return Transcript(
            audio=recording.name,
            duration_s=recording.duration_s,
            language=recording.language,
            task=self._options.task,
            segments=tuple(recording.segments),
            timings=replace(context.clock.timings(), load_ms=self._pipeline.load_ms),
            settings=self._pipeline.settings(
                self._options, self._long, self._batch_size
            ),
            language_probs=context.language_probs,
            untranscribed=recording.untranscribed,
        )


class Segments(Iterator[Segment]):
    """Final segments, transcribed as they are asked for."""

    def __init__(self, run: TranscriptionRun, recording: Recording) -> None:
        self._run = run
        self._recording = recording
        self._segments = _yield_segments(run, recording)

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


def _yield_segments(
    run: TranscriptionRun, recording: Recording
) -> Generator[Segment, None, None]:
    """Yield the segments; no method of `Segments`, which ends with its last reference."""
    n_given = 0
    for _ in run.schedule(RecordingList([recording])).run_windows():
        new = recording.segments[n_given:]
        n_given += len(new)
        yield from new
    if recording.failure is not None:
        raise recording.failure
