"""Events of the running segment: partials, its cuts, its final text, its speech without text."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from whisper_hailo.audio.vad import FRAME_SAMPLES
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord
from whisper_hailo.live.commit_policy import RunningText, Tentative
from whisper_hailo.live.cuts import (
    STALL_S,
    find_clause_cut,
    find_cut,
    find_rest,
    find_text_end,
)
from whisper_hailo.live.events import (
    CaptionWord,
    Completed,
    Event,
    Moment,
    Partial,
    Reason,
    Started,
    StreamClock,
    Untranscribed,
)
from whisper_hailo.live.latencies import LatencyRecorder
from whisper_hailo.live.listener import RunningSegment, SegmentListener
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.segmenter import Segmenter
from whisper_hailo.live.untranscribed import find_untranscribed

logger = logging.getLogger(__name__)

_REST_FACTOR: Final = 3.0
"""New audio before a partial, in times of what the last one took: a third of a core is for
partials, so that a slow machine has fewer of them before its final text is late."""

_END_S: Final = 0.3
"""In a pause that ends the segment so soon, its final text is waited for: a partial would be shown
for that long, and cost as much."""

_MIN_PARTIAL_SAMPLES: Final = round(0.1 * SAMPLE_RATE_HZ)
"""Less audio than this says nothing and is no partial."""


class SegmentCaptions:
    """Turn the segmenter's running segment into events, from its start to its final text.

    Args:
        segmenter: has the audio of the running segment.
        listener: transcribes it, and counts what that costs.
        clock: of the stream.
        options: of the captions.
        longest_s: a longer segment is cut, in seconds.
    """

    def __init__(
        self,
        segmenter: Segmenter,
        listener: SegmentListener,
        clock: StreamClock,
        options: CaptionOptions,
        longest_s: float,
    ) -> None:
        self._segmenter = segmenter
        self._listener = listener
        self._clock = clock
        self._statistics = listener.statistics
        self._settle_s = options.settle_s
        # 0: no partials.
        self._partial_interval = round(options.min_partial_s * SAMPLE_RATE_HZ)
        self._longest = round(longest_s * SAMPLE_RATE_HZ)
        self._latencies = LatencyRecorder(clock, listener.statistics)
        self._running: RunningSegment | None = None
        self._n_segments = 0
        self._partial_took_s = 0.0

    def begin(self) -> Started:
        """Begin a segment where speech begins."""
        self._listener.begin_segment()
        text = RunningText(self._settle_s)
        return self._start(
            RunningSegment(self._n_segments, text, self._segmenter.start)
        )

    def _start_behind_cut(
        self, cut: RunningSegment | None, rest: Sequence[Tentative] = ()
    ) -> Started:
        """Begin a segment whose speech began before; `cut` is one in the same language."""
        text = RunningText(self._settle_s, tentative=list(rest))
        running = RunningSegment(
            self._n_segments, text, self._segmenter.start, is_continuation=True
        )
        if cut is not None:
            running.language = cut.language
            running.is_language_sure = cut.is_language_sure
        return self._start(running)

    def _start(self, running: RunningSegment) -> Started:
        self._running = running
        self._n_segments += 1
        return Started(segment_id=running.segment_id, **self._moment(running.start_s))

    def end(self, reason: Reason) -> Iterator[Event]:
        """Complete the running segment, if there is one."""
        if self._running is not None:
            yield from self._complete(self._running, self._segmenter.n_samples, reason)
            self._segmenter.end_segment()

    def make_due_partial(self) -> Iterator[Event]:
        """Transcribe the running segment again if there is enough new audio."""
        if self._running is not None and self._is_partial_due(self._running):
            yield from self._make_partial(self._running)

    def cut_at_limit(self) -> Iterator[Event]:
        """Cut the running segment if it is as long as segments may be."""
        if self._running is not None and self._segmenter.n_samples >= self._longest:
            yield from self._cut_segment(self._running)

    def _is_partial_due(self, running: RunningSegment) -> bool:
        """Return whether there is enough new audio, for a reader and for the machine."""
        n_samples = self._segmenter.n_samples
        if not self._partial_interval or n_samples < _MIN_PARTIAL_SAMPLES:
            return False
        if self._segmenter.is_silent and self._segmenter.silence_left_s <= _END_S:
            return False
        rest = round(_REST_FACTOR * self._partial_took_s * SAMPLE_RATE_HZ)
        return n_samples - running.n_transcribed >= max(self._partial_interval, rest)

    def _make_partial(self, running: RunningSegment) -> Iterator[Event]:
        """Transcribe the running segment again; skip this partial if the device fails."""
        n_samples = self._segmenter.n_samples
        self._count_skipped(running, n_samples)
        begin_s = self._clock.now()
        try:
            result = self._listener.transcribe_partial(running, self._segmenter.audio)
        except DeviceError as error:
            logger.warning("a partial was skipped: %s", error)
            running.n_transcribed = n_samples
            self._statistics.n_skipped += 1
            return
        if self._clock.is_live:  # a file's captions do not depend on the machine
            self._partial_took_s = self._clock.now() - begin_s
        length_s = n_samples / SAMPLE_RATE_HZ
        running.text.update(result, length_s, may_commit=running.is_language_sure)
        n_settled = len(running.text.committed) - len(running.settled_at_s)
        running.settled_at_s += n_settled * [self._clock.now()]
        if running.text.ends_clause:
            words = running.text.words_behind_committed(result)
            place = find_clause_cut(self._segmenter, result.words, len(words))
            if place is not None:
                yield from self._cut_clause(running, place, words)
                return
        yield self._show(running)
        if self._leaves_out_speech(running):
            yield from self._cut_text_end(running)

    def _count_skipped(self, running: RunningSegment, n_samples: int) -> None:
        """Count the partials that were due since the last one, except the one made now."""
        if self._partial_interval:
            interval = max(self._partial_interval, FRAME_SAMPLES)
            n_due = (n_samples - running.n_transcribed) // interval
            self._statistics.n_skipped += max(0, n_due - 1)

    def _show(self, running: RunningSegment) -> Partial:
        """Return the event of a running segment's text."""
        tentative = [item.word for item in running.text.tentative]
        event = Partial(
            segment_id=running.segment_id,
            end_s=(running.start + running.n_transcribed) / SAMPLE_RATE_HZ,
            committed=_running_words(running.text.committed),
            tentative=_running_words(tentative),
            language=running.language or "",
            **self._moment(running.start_s),
        )
        self._latencies.note_first_text(running, event.text)
        return event

    def _leaves_out_speech(self, running: RunningSegment) -> bool:
        """Return whether speech goes on for long while the text of a segment does not."""
        text = running.text
        if not text.known:
            return False
        return self._segmenter.measure_speech(text.grown_s) >= STALL_S

    def _complete(
        self, running: RunningSegment, n_samples: int, reason: Reason
    ) -> Iterator[Event]:
        """Transcribe a segment for the last time, and report its speech without text.

        Speech behind its text becomes a segment of its own, which may be in another language.

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
        if reason == "clause":
            # What is heard behind the clause begins the next segment.
            words = words[: len(running.text.committed)]
        n_whole = n_samples
        rest = self._find_rest(words, n_whole, reason)
        if rest is not None:
            n_samples = rest
        end_s = (running.start + n_samples) / SAMPLE_RATE_HZ
        event = Completed(
            segment_id=running.segment_id,
            end_s=end_s,
            words=_caption_words(words, running.start_s, end_s),
            reason=reason if rest is None else "no_text",
            language=result.language,
            translation=result.translation,
            **self._moment(running.start_s),
        )
        self._latencies.note_completed(
            running, event, n_samples, self._segmenter.last_speech
        )
        self._latencies.note_settled(running, words)
        self._running = None
        yield event
        if failure is not None:
            self._segmenter.end_segment()  # a reader that goes on begins another segment
            raise failure
        yield from self._report_untranscribed(running, words, n_samples)
        if rest is not None:
            yield from self._begin_without_language(rest)
            if self._running is not None:
                yield from self._complete(self._running, n_whole - rest, reason)

    def _find_rest(
        self, words: Sequence[BufferWord], n_samples: int, reason: Reason
    ) -> int | None:
        """Return where speech behind the text of an ended segment begins, if there is some."""
        # More speech follows.
        if not words or reason in ("clause", "length", "no_text"):
            return None
        probabilities = self._segmenter.probabilities_until(n_samples)
        stretches = find_untranscribed(probabilities, words, "")
        if not stretches:
            return None
        return find_rest(self._segmenter, words, stretches[-1].start_s)

    def _begin_without_language(self, place: int) -> Iterator[Event]:
        """Begin a segment where a text left speech out, in whatever language that is."""
        self._listener.forget_language()
        self._segmenter.cut_segment(place)
        yield self._start_behind_cut(None)

    def _report_untranscribed(
        self, running: RunningSegment, words: Sequence[BufferWord], n_samples: int
    ) -> Iterator[Untranscribed]:
        """Yield the speech of a completed segment that got no text."""
        probabilities = self._segmenter.probabilities_until(n_samples)
        language = running.language or ""
        for speech in find_untranscribed(probabilities, words, language):
            end_s = min(speech.end_s, n_samples / SAMPLE_RATE_HZ)
            self._statistics.untranscribed_s += end_s - speech.start_s
            yield Untranscribed(
                segment_id=running.segment_id,
                end_s=running.start_s + end_s,
                reason=speech.reason,
                language=speech.language,
                **self._moment(running.start_s + speech.start_s),
            )

    def _cut_segment(self, running: RunningSegment) -> Iterator[Event]:
        """Complete the first part of a segment that is too long and go on with the rest."""
        length_s = self._segmenter.n_samples / SAMPLE_RATE_HZ
        words: tuple[BufferWord, ...] = ()
        behind: tuple[BufferWord, ...] = ()
        # Without the times of words it is cut where it is quiet.
        with suppress(DeviceError):
            result = self._listener.transcribe_words(running, self._segmenter.audio)
            words = result.words
            behind = running.text.words_behind_committed(result)
        place = find_cut(self._segmenter, words, running.text.settled_s)
        cut_s = place / SAMPLE_RATE_HZ
        n_rest = sum(1 for word in behind if (word.start_s or 0.0) >= cut_s)
        rest = running.text.split_rest(behind, n_rest, cut_s, length_s)
        yield from self._complete(running, place, "length")
        if rest:
            self._statistics.n_partials += 1
        yield from self._go_on(running, place, rest)

    def _cut_clause(
        self, running: RunningSegment, place: int, behind: Sequence[BufferWord]
    ) -> Iterator[Event]:
        """Complete a segment at the end of its committed words and go on with those behind."""
        cut_s = place / SAMPLE_RATE_HZ
        length_s = running.n_transcribed / SAMPLE_RATE_HZ
        rest = running.text.split_rest(behind, len(behind), cut_s, length_s)
        yield from self._complete(running, place, "clause")
        yield from self._go_on(running, place, rest)

    def _go_on(
        self, running: RunningSegment, place: int, rest: Sequence[Tentative]
    ) -> Iterator[Event]:
        """Begin a segment at a cut, with the words behind it, which stay on the screen."""
        n_transcribed = self._segmenter.n_samples - place
        self._segmenter.cut_segment(place)
        yield self._start_behind_cut(running, rest)
        if rest and self._running is not None:
            self._running.n_transcribed = n_transcribed
            yield self._show(self._running)

    def _cut_text_end(self, running: RunningSegment) -> Iterator[Event]:
        """Complete a segment where its text ends; what follows may be in another language."""
        grown_s = running.text.grown_s
        try:
            result = self._listener.transcribe_words(running, self._segmenter.audio)
        except DeviceError as error:
            logger.warning("speech without text is left to its segment: %s", error)
            return
        if len(result.text) > running.text.n_characters:
            return  # it is there, but was held back
        place = find_text_end(self._segmenter, result.words, grown_s)
        yield from self._complete(running, place, "no_text")
        yield from self._begin_without_language(place)

    def _moment(self, start_s: float) -> Moment:
        """Return the times of an event that begins at `start_s` of the stream."""
        return self._clock.moment(start_s, self._segmenter.n_heard / SAMPLE_RATE_HZ)


def _running_words(words: Sequence[BufferWord]) -> tuple[CaptionWord, ...]:
    """Return words that may still get other times."""
    return tuple(CaptionWord(word.text, word.probability) for word in words)


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
