"""From a stream of audio to events: segments, partials while they run, final texts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES, SpeechDetector
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord, FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.commit_policy import RunningText
from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Cleared,
    Completed,
    Event,
    Lost,
    Marker,
    Moment,
    Partial,
    Reason,
    SettingsChanged,
    Started,
    StreamClock,
)
from whisper_hailo.live.listener import RunningSegment, SegmentListener
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer
from whisper_hailo.live.segmenter import Segmenter, find_cut
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)

_REST_FACTOR: Final = 3.0
"""New audio before a partial, in times of what the last one took: a third of a core is for
partials, so that a slow machine has fewer of them before its final text is late."""

_MIN_PARTIAL_SAMPLES: Final = round(0.1 * SAMPLE_RATE_HZ)
"""Less audio than this says nothing and is no partial."""


class Captioner:
    """Turn audio into caption events; `now` is a monotonic clock in seconds.

    Attributes:
        statistics: of everything so far.

    Raises:
        OptionError: segments are longer than the recogniser takes.
    """

    def __init__(
        self,
        recognizer: SpeechRecognizer,
        detector: SpeechDetector,
        options: CaptionOptions | None = None,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        options = options or CaptionOptions()
        self._settle_s = options.settle_s
        self._partial_interval = round(
            options.min_partial_s * SAMPLE_RATE_HZ
        )  # 0: no partials
        self._max_segment = round(
            options.longest_s(recognizer.content_s) * SAMPLE_RATE_HZ
        )
        self._segmenter = Segmenter(detector, options)
        self._clock = StreamClock(now)
        self._incomplete = np.empty(0, np.float32)  # the beginning of the next frame
        self._n_dropped = 0  # samples of an incomplete frame when the source went away
        self._running: RunningSegment | None = None
        self._n_segments = 0
        self._partial_took_s = 0.0
        self.statistics = CaptionStatistics()
        self._listener = SegmentListener(recognizer, options, self.statistics)

    @property
    def heard_s(self) -> float:
        """How far the stream has come, in seconds."""
        return self._segmenter.n_heard / SAMPLE_RATE_HZ

    @property
    def settings(self) -> dict[str, str]:
        """The settings that users change while captions run, by name."""
        return {"language": self._listener.next_recognizer.language}

    def feed(
        self, audio: FloatArray, captured_s: float | None = None
    ) -> Iterator[Event]:
        """Take audio of any length; make at most one partial, of all of it.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz mono, following what was fed before.
            captured_s: when its last sample was captured, by the captioner's clock, from which
                latencies are measured; `None` for audio that is not live.
        """
        if self._incomplete.size:
            audio = np.concatenate([self._incomplete, audio])
        if captured_s is not None:
            self._clock.note_capture(captured_s, self._segmenter.n_heard + audio.size)
        n_whole = audio.size - audio.size % FRAME_SAMPLES
        self._incomplete = audio[n_whole:].copy()
        for begin in range(0, n_whole, FRAME_SAMPLES):
            yield from self._process_frame(audio[begin : begin + FRAME_SAMPLES])
        if self._running is not None and self._is_partial_due(self._running):
            yield from self._make_partial(self._running)

    def skip_lost(self, n_samples: int) -> Iterator[Event]:
        """Complete the running segment and continue behind `n_samples` of lost audio."""
        yield from self._end_segment("loss")
        start_s = self.heard_s
        n_lost = self._skip(n_samples)
        if not self.statistics.n_lost_samples:
            logger.warning(
                "%.2f s of sound were lost: computing is too far behind (this warning comes once; "
                "events and lost_s count every loss)",
                n_lost / SAMPLE_RATE_HZ,
            )
        self.statistics.n_lost_samples += n_lost
        yield Lost(end_s=self.heard_s, **self._moment(start_s))

    def suspend(self, reason: str, *, paused: bool = False) -> Iterator[Event]:
        """Complete the running segment: the source is disconnected, or a user paused it."""
        yield from self._end_segment("away")
        self._n_dropped = self._incomplete.size
        self._incomplete = self._incomplete[:0]
        if not paused:
            self.statistics.n_away += 1
        yield Away(why=reason, paused=paused, **self._moment(self.heard_s))

    def resume(self, n_samples: int, *, paused: bool = False) -> Iterator[Event]:
        """Continue behind the `n_samples` for which the source was away."""
        start_s = self.heard_s
        n_skipped = self._skip(n_samples + self._n_dropped)
        if paused:
            self.statistics.n_paused_samples += n_skipped
        else:
            self.statistics.n_away_samples += n_skipped
        yield Back(end_s=self.heard_s, paused=paused, **self._moment(start_s))

    def finish(self) -> Iterator[Event]:
        """Complete the running segment at the end of the stream."""
        if self._incomplete.size:
            frame = np.pad(self._incomplete, (0, FRAME_SAMPLES - self._incomplete.size))
            self._incomplete = self._incomplete[:0]
            yield from self._process_frame(frame)
        yield from self._end_segment("end")

    def set_language(self, language: str) -> SettingsChanged:
        """Change the language from the next segment on.

        Raises:
            OptionError: the recogniser does not know it.
        """
        recognizer = self._listener.next_recognizer.with_language(language)
        self._listener.next_recognizer = recognizer
        return SettingsChanged(settings=self.settings, **self._moment(self.heard_s))

    def mark(self, label: str) -> Marker:
        """Return a marker at the current place of the stream."""
        return Marker(label=label, **self._moment(self.heard_s))

    def clear(self) -> Cleared:
        """Return the event that clears what is shown."""
        return Cleared(**self._moment(self.heard_s))

    def _skip(self, n_samples: int) -> int:
        """Skip the incomplete frame and what follows; return their samples."""
        n_samples += self._incomplete.size
        self._incomplete = self._incomplete[:0]
        self._segmenter.skip(n_samples)
        return n_samples

    def _process_frame(self, frame: FloatArray) -> Iterator[Event]:
        self.statistics.n_stream_samples += frame.size
        change = self._segmenter.push(frame)
        if change == "started":
            yield self._start_segment()
        elif change == "ended":
            yield from self._end_segment("silence")
        elif (
            self._running is not None and self._segmenter.n_samples >= self._max_segment
        ):
            yield from self._cut_segment(self._running)

    def _start_segment(self, carried: Draft | None = None) -> Started:
        """Begin a segment, with the text of the rest of one that was cut if there is some."""
        if carried is None:
            self._listener.begin_segment()
        text = RunningText(self._settle_s)
        running = RunningSegment(self._n_segments, text, self._segmenter.start, carried)
        self._running = running
        self._n_segments += 1
        return Started(segment_id=running.segment_id, **self._moment(running.start_s))

    def _end_segment(self, reason: Reason) -> Iterator[Event]:
        """Complete the running segment, if there is one."""
        if self._running is not None:
            yield from self._complete(self._running, self._segmenter.n_samples, reason)
            self._segmenter.end_segment()

    def _is_partial_due(self, running: RunningSegment) -> bool:
        """Return whether there is enough new audio, for a reader and for the machine."""
        n_samples = self._segmenter.n_samples
        if not self._partial_interval or n_samples < _MIN_PARTIAL_SAMPLES:
            return False
        rest = round(_REST_FACTOR * self._partial_took_s * SAMPLE_RATE_HZ)
        return n_samples - running.n_transcribed >= max(self._partial_interval, rest)

    def _make_partial(self, running: RunningSegment) -> Iterator[Partial]:
        """Transcribe the running segment again; skip this partial if the device fails."""
        n_samples = self._segmenter.n_samples
        self._count_skipped(running, n_samples)
        begin_s = self._clock.now()
        try:
            result = self._listener.transcribe_partial(running, self._segmenter.audio)
        except DeviceError as error:
            logger.warning("a partial was skipped: %s", error)
            running.n_transcribed = n_samples
            self.statistics.n_skipped += 1
            return
        if self._clock.is_live:  # a file's captions do not depend on the machine
            self._partial_took_s = self._clock.now() - begin_s
        length_s = n_samples / SAMPLE_RATE_HZ
        running.text.update(result, length_s, may_commit=running.is_language_sure)
        end_s = (running.start + n_samples) / SAMPLE_RATE_HZ
        tentative = [item.word for item in running.text.tentative]
        event = Partial(
            segment_id=running.segment_id,
            end_s=end_s,
            committed=_caption_words(running.text.committed, running.start_s, end_s),
            tentative=_caption_words(tentative, running.start_s, end_s),
            language=result.language,
            **self._moment(running.start_s),
        )
        self._note_first_text(running, event.text)
        yield event

    def _complete(
        self, running: RunningSegment, n_samples: int, reason: Reason
    ) -> Iterator[Completed]:
        """Transcribe a segment for the last time.

        If the device fails, the segment is completed with the text that is known, and the error is
        raised behind its event.
        """
        self._count_skipped(running, n_samples)
        failure: DeviceError | None = None
        try:
            result = self._listener.transcribe_all(
                running, self._segmenter.audio[:n_samples]
            )
            words = running.text.finish(result)
        except DeviceError as error:
            failure = error
            words = running.text.known
            result = BufferText(words, running.language or "")
        end_s = (running.start + n_samples) / SAMPLE_RATE_HZ
        event = Completed(
            segment_id=running.segment_id,
            end_s=end_s,
            words=_caption_words(words, running.start_s, end_s),
            reason=reason,
            language=result.language,
            translation=result.translation,
            **self._moment(running.start_s),
        )
        self._note_completed(running, event, n_samples)
        self._running = None
        yield event
        if failure is not None:
            self._segmenter.end_segment()  # a reader that goes on begins another segment
            raise failure

    def _cut_segment(self, running: RunningSegment) -> Iterator[Event]:
        """Complete the first part of a segment that is too long and go on with the rest."""
        words: tuple[BufferWord, ...] = ()
        with suppress(
            DeviceError
        ):  # without the times of words it is cut where it is quiet
            words = self._listener.transcribe_words(
                running, self._segmenter.audio
            ).words
        place = find_cut(self._segmenter, words, running.text.settled_s)
        yield from self._complete(running, place, "length")
        self._segmenter.cut_segment(place)
        cut_s = place / SAMPLE_RATE_HZ
        tokens: list[int] = []
        for word in words:
            if (word.start_s or 0.0) >= cut_s:
                tokens += word.tokens
        yield self._start_segment(Draft(tuple(tokens)))

    def _count_skipped(self, running: RunningSegment, n_samples: int) -> None:
        """Count the partials that were due since the last one, except the one made now."""
        if self._partial_interval:
            interval = max(self._partial_interval, FRAME_SAMPLES)
            n_due = (n_samples - running.n_transcribed) // interval
            self.statistics.n_skipped += max(0, n_due - 1)

    def _note_first_text(self, running: RunningSegment, text: str) -> None:
        if not text or running.has_text:
            return
        running.has_text = True
        latency_s = self._clock.since(running.start)
        is_cut = running.carried is not None  # its speech began in the segment before
        if latency_s is not None and not is_cut:
            self.statistics.first_latency_s.append(latency_s)

    def _note_completed(
        self, running: RunningSegment, event: Completed, n_samples: int
    ) -> None:
        self._note_first_text(running, event.text)
        latency_s = self._clock.since(self._segmenter.last_speech)
        ends_speech = event.reason in ("silence", "end")
        if latency_s is not None and ends_speech:
            self.statistics.final_latency_s.append(latency_s)
        since_s = self._clock.since(running.start + n_samples)
        self.statistics.note_completed(
            event, n_samples, running.text.n_corrected, since_s
        )

    def _moment(self, start_s: float) -> Moment:
        """Return the times of an event that begins at `start_s` of the stream."""
        return self._clock.moment(start_s, self.heard_s)


def _caption_words(
    words: Sequence[BufferWord], start_s: float, end_s: float
) -> tuple[CaptionWord, ...]:
    """Return words of a segment for events, with times in the stream."""

    def in_stream(seconds: float | None) -> float | None:
        return None if seconds is None else min(start_s + seconds, end_s)

    return tuple(
        CaptionWord(
            word.text, word.probability, in_stream(word.start_s), in_stream(word.end_s)
        )
        for word in words
    )
