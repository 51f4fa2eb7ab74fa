"""Captions of a finished recording without partials: the text of `transcribe`, as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, UntranscribedSpeech
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.events import (
    CaptionWord,
    Completed,
    Event,
    Started,
    StreamClock,
    Untranscribed,
)
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.transcription.run import Segments
from whisper_hailo.transcription.transcriber import Transcriber


class FinishedRecording:
    """A recording whose captions are its transcript: whole windows, searched as for `transcribe`.

    Args:
        transcriber: open.
        path: of the recording.
        options: as for `transcribe`; with word times the events have them.
        now: a monotonic clock in seconds.

    Attributes:
        statistics: of everything so far.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        path: str,
        options: DecodingOptions,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self.statistics = CaptionStatistics()
        self._transcriber = transcriber
        self._path = path
        self._options = options
        self._now = now
        self._stopped = False

    def stop(self) -> None:
        """End the captions with the next segment."""
        self._stopped = True

    def events(self) -> Iterator[Event]:
        """Yield two events for each segment, and behind the last one the speech without text."""
        clock = StreamClock(self._now)
        begin_s = self._now()
        segments = self._transcriber.segments(self._path, self._options)
        n_segments = 0
        for segment in segments:
            self.statistics.compute_s = self._now() - begin_s
            yield from self._report_segment(segment, n_segments, clock)
            n_segments += 1
            if self._stopped:
                segments.close()
                break
        self.statistics.compute_s = self._now() - begin_s
        yield from self._report_rest(segments, max(0, n_segments - 1), clock)

    def _report_segment(
        self, segment: Segment, segment_id: int, clock: StreamClock
    ) -> Iterator[Event]:
        moment = clock.moment(segment.start_s, segment.end_s)
        yield Started(segment_id=segment_id, **moment)
        event = Completed(
            segment_id=segment_id,
            end_s=segment.end_s,
            words=_words_of(segment),
            reason="silence",
            language=segment.language,
            **moment,
        )
        n_samples = round((segment.end_s - segment.start_s) * SAMPLE_RATE_HZ)
        self.statistics.n_stream_samples = round(segment.end_s * SAMPLE_RATE_HZ)
        self.statistics.note_completed(event, n_samples, 0, None)
        yield event

    def _report_rest(
        self, segments: Segments, segment_id: int, clock: StreamClock
    ) -> Iterator[Untranscribed]:
        transcript = segments.transcript
        if not self._stopped:
            n_samples = round(transcript.duration_s * SAMPLE_RATE_HZ)
            self.statistics.n_stream_samples = n_samples
        for speech in transcript.untranscribed:
            yield self._report_untranscribed(speech, segment_id, clock)

    def _report_untranscribed(
        self, speech: UntranscribedSpeech, segment_id: int, clock: StreamClock
    ) -> Untranscribed:
        self.statistics.untranscribed_s += speech.end_s - speech.start_s
        return Untranscribed(
            segment_id=segment_id,
            end_s=speech.end_s,
            reason=speech.reason,
            language=speech.language,
            **clock.moment(speech.start_s, speech.end_s),
        )


def _words_of(segment: Segment) -> tuple[CaptionWord, ...]:
    """Return the words of a segment; without word times they are its text."""
    if segment.words:
        return tuple(
            CaptionWord(word.text, word.probability, word.start_s, word.end_s)
            for word in segment.words
        )
    return tuple(CaptionWord(f" {word}") for word in segment.text.split())
