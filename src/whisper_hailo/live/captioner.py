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
from whisper_hailo.live.engine import CaptionEngine
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
    Settings,
    Started,
    StreamClock,
)
from whisper_hailo.live.listener import RunningSegment, SegmentListener
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.segmenter import Segmenter, cut_place
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)

_REST: Final = 3.0
"""New audio before a partial, in times of what the last one took: a third of a core is for
partials, so that a slow machine has fewer of them before its final text is late."""

_LEAST_HEARD_S: Final = 0.1
"""Less audio than this says nothing and is no partial."""


class Captioner:
    """Turn audio into caption events; `now` is a monotonic clock in seconds.

    Attributes:
        statistics: of everything so far.

    Raises:
        OptionError: segments are longer than the engine takes.
    """

    def __init__(
        self,
        engine: CaptionEngine,
        detector: SpeechDetector,
        options: CaptionOptions | None = None,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        options = options or CaptionOptions()
        self._settle_s = options.settle_s
        self._due = round(options.min_partial_s * SAMPLE_RATE_HZ)  # new samples; 0: no partials
        self._longest = round(options.longest_s(engine.content_s) * SAMPLE_RATE_HZ)
        self._segmenter = Segmenter(detector, options)
        self._clock = StreamClock(now)
        self._torn = np.empty(0, np.float32)  # the beginning of the next frame
        self._n_torn = 0  # its samples when the source went away
        self._running: RunningSegment | None = None
        self._n_segments = 0
        self._partial_took_s = 0.0
        self.statistics = CaptionStatistics()
        self._listener = SegmentListener(engine, options, self.statistics)

    @property
    def heard_s(self) -> float:
        """Return how far the stream has come, in seconds."""
        return self._segmenter.n_heard / SAMPLE_RATE_HZ

    def feed(self, audio: FloatArray, captured_s: float | None = None) -> Iterator[Event]:
        """Take audio of any length; make at most one partial, of all of it.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz mono, following what was fed before.
            captured_s: when its last sample was captured, by the captioner's clock, from which
                latencies are measured; `None` for audio that is not live.
        """
        audio = np.concatenate([self._torn, audio]) if self._torn.size else audio
        if captured_s is not None:
            self._clock.note_capture(captured_s, self._segmenter.n_heard + audio.size)
        n_whole = audio.size - audio.size % FRAME_SAMPLES
        self._torn = audio[n_whole:].copy()
        for begin in range(0, n_whole, FRAME_SAMPLES):
            yield from self._frame(audio[begin : begin + FRAME_SAMPLES])
        running, n_samples = self._running, self._segmenter.n_samples
        if running is not None and self._due and n_samples >= _LEAST_HEARD_S * SAMPLE_RATE_HZ:
            rest = round(_REST * self._partial_took_s * SAMPLE_RATE_HZ)
            if n_samples - running.shown >= max(self._due, rest):
                yield from self._partial(running)

    def lose(self, n_samples: int) -> Iterator[Event]:
        """Complete the running segment and continue behind `n_samples` of lost audio."""
        yield from self._end("loss")
        start_s, n_lost = self.heard_s, self._skip(n_samples)
        if not self.statistics.n_lost_samples:
            logger.warning(
                "%.2f s of sound could not wait and were lost: computing is too far behind (told "
                "once; events and lost_s tell of all)",
                n_lost / SAMPLE_RATE_HZ,
            )
        self.statistics.n_lost_samples += n_lost
        yield Lost(end_s=self.heard_s, **self._moment(start_s))

    def leave(self, why: str, *, paused: bool = False) -> Iterator[Event]:
        """Complete the running segment: the source is disconnected, or a user paused it."""
        yield from self._end("away")
        self._n_torn, self._torn = self._torn.size, self._torn[:0]
        self.statistics.n_away += not paused
        yield Away(why=why, paused=paused, **self._moment(self.heard_s))

    def come_back(self, n_samples: int, *, paused: bool = False) -> Iterator[Event]:
        """Continue behind the `n_samples` for which the source was away."""
        start_s, n_skipped = self.heard_s, self._skip(n_samples + self._n_torn)
        if paused:
            self.statistics.n_paused_samples += n_skipped
        else:
            self.statistics.n_away_samples += n_skipped
        yield Back(end_s=self.heard_s, paused=paused, **self._moment(start_s))

    def finish(self) -> Iterator[Event]:
        """Complete the running segment at the end of the stream."""
        if self._torn.size:
            frame = np.pad(self._torn, (0, FRAME_SAMPLES - self._torn.size))
            self._torn = self._torn[:0]
            yield from self._frame(frame)
        yield from self._end("end")

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that users change while captions run, by name."""
        return {"language": self._listener.engine.language}

    def set_language(self, language: str) -> Settings:
        """Change the language from the next segment on; `OptionError` refuses an unknown one."""
        self._listener.engine = self._listener.engine.in_language(language)
        return Settings(settings=self.settings, **self._moment(self.heard_s))

    def mark(self, label: str) -> Marker:
        """Return a marker at the current place of the stream."""
        return Marker(label=label, **self._moment(self.heard_s))

    def clear(self) -> Cleared:
        """Return the event that clears what is shown."""
        return Cleared(**self._moment(self.heard_s))

    def _skip(self, n_samples: int) -> int:
        """Skip the incomplete frame and what follows; return their samples."""
        n_samples += self._torn.size
        self._torn = self._torn[:0]
        self._segmenter.skip(n_samples)
        return n_samples

    def _frame(self, frame: FloatArray) -> Iterator[Event]:
        self.statistics.n_stream_samples += frame.size
        change = self._segmenter.push(frame)
        if change == "started":
            yield self._start()
        elif change == "ended":
            yield from self._end("silence")
        elif self._running is not None and self._segmenter.n_samples >= self._longest:
            yield from self._cut(self._running)

    def _start(self, carried: Draft | None = None) -> Started:
        if carried is None:
            self._listener.begin()
        text, start = RunningText(self._settle_s), self._segmenter.start
        self._running = RunningSegment(self._n_segments, text, start, carried)
        self._n_segments += 1
        return Started(segment_id=self._running.segment_id, **self._moment(self._running.start_s))

    def _end(self, reason: Reason) -> Iterator[Event]:
        """Complete the running segment, if there is one."""
        if self._running is not None:
            yield from self._complete(self._running, self._segmenter.n_samples, reason)
            self._segmenter.end()

    def _partial(self, running: RunningSegment) -> Iterator[Partial]:
        """Transcribe the running segment again; skip this partial if the device fails."""
        n_samples = self._segmenter.n_samples
        self._count_skipped(running, n_samples)
        begin_s = self._clock.now()
        try:
            result = self._listener.transcribe_partial(running, self._segmenter.audio)
        except DeviceError as error:
            logger.warning("a partial was skipped: %s", error)
            running.shown = n_samples
            self.statistics.n_skipped += 1
            return
        if self._clock.is_live:  # a file's captions do not depend on the machine
            self._partial_took_s = self._clock.now() - begin_s
        running.text.update(result, n_samples / SAMPLE_RATE_HZ, may_stay=running.is_decided)
        end_s = (running.start + n_samples) / SAMPLE_RATE_HZ
        tentative = [one.word for one in running.text.tentative]
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
        """Transcribe a segment for the last time; of a failing device, with what is known."""
        self._count_skipped(running, n_samples)
        failure: DeviceError | None = None
        try:
            result = self._listener.transcribe_all(running, self._segmenter.audio[:n_samples])
            words = running.text.finish(result)
        except DeviceError as error:
            words, failure = running.text.known, error
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
        self._note_first_text(running, event.text)
        latency_s = self._clock.since(self._segmenter.last_speech)
        if latency_s is not None and reason in ("silence", "end"):  # others are no end of speech
            self.statistics.final_latency_s.append(latency_s)
        since_s = self._clock.since(running.start + n_samples)
        self.statistics.note_completed(event, n_samples, running.text.n_corrected, since_s)
        self._running = None
        yield event
        if failure is not None:
            self._segmenter.end()  # who goes on begins another segment
            raise failure

    def _cut(self, running: RunningSegment) -> Iterator[Event]:
        """Complete the first part of a segment that is too long and go on with the rest."""
        words: tuple[BufferWord, ...] = ()
        with suppress(DeviceError):  # without the times of words it is cut where it is quiet
            words = self._listener.transcribe_words(running, self._segmenter.audio).words
        place = cut_place(self._segmenter, words, running.text.settled_s)
        yield from self._complete(running, place, "length")
        self._segmenter.cut(place)
        rest = [word for word in words if (word.start_s or 0.0) >= place / SAMPLE_RATE_HZ]
        yield self._start(Draft(tuple(token for word in rest for token in word.tokens)))

    def _count_skipped(self, running: RunningSegment, n_samples: int) -> None:
        """Count the partials that were due since the last one, except the one made now."""
        if self._due:
            n_due = (n_samples - running.shown) // max(self._due, FRAME_SAMPLES)
            self.statistics.n_skipped += max(0, n_due - 1)

    def _note_first_text(self, running: RunningSegment, text: str) -> None:
        if text and not running.first_text:
            running.first_text = True
            latency_s = self._clock.since(running.start)
            if latency_s is not None and running.carried is None:
                self.statistics.first_latency_s.append(latency_s)

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
        CaptionWord(word.text, word.probability, in_stream(word.start_s), in_stream(word.end_s))
        for word in words
    )
