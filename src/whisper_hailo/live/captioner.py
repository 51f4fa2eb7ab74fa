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
from whisper_hailo.live.commit_policy import RunningText, Tentative
from whisper_hailo.live.cuts import (
    STALL_S,
    find_clause_cut,
    find_cut,
    find_rest,
    find_text_end,
)
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
    Untranscribed,
)
from whisper_hailo.live.listener import RunningSegment, SegmentListener
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer
from whisper_hailo.live.segmenter import Segmenter
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.untranscribed import find_untranscribed

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
        # 0: no partials.
        self._partial_interval = round(options.min_partial_s * SAMPLE_RATE_HZ)
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
                "%.2f s of audio were lost because decoding is too far behind (this warning is "
                "given once; events and lost_s count every loss)",
                n_lost / SAMPLE_RATE_HZ,
            )
        self.statistics.n_lost_samples += n_lost
        yield Lost(end_s=self.heard_s, **self._moment(start_s))

    def suspend(self, gap: Interruption) -> Iterator[Event]:
        """Complete the running segment: the source is disconnected, or paused, or stalls."""
        yield from self._end_segment("away")
        if not gap.stalled:  # of a source that stalls the next samples follow
            self._n_dropped = self._incomplete.size
            self._incomplete = self._incomplete[:0]
        self.statistics.note_absence(gap)
        yield Away(
            why=gap.reason,
            paused=gap.paused,
            stalled=gap.stalled,
            **self._moment(self.heard_s),
        )

    def resume(self, gap: Interruption) -> Iterator[Event]:
        """Continue behind the samples for which the source was away."""
        start_s = self.heard_s
        if not gap.stalled:
            n_skipped = self._skip(gap.n_samples + self._n_dropped)
            if gap.paused:
                self.statistics.n_paused_samples += n_skipped
            else:
                self.statistics.n_away_samples += n_skipped
        yield Back(
            end_s=self.heard_s,
            paused=gap.paused,
            stalled=gap.stalled,
            **self._moment(start_s),
        )

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

    def _start_segment(self) -> Started:
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
            self.statistics.n_skipped += 1
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
        self._note_first_text(running, event.text)
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
        self._note_completed(running, event, n_samples)
        self._note_settled(running, words)
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
            self.statistics.untranscribed_s += end_s - speech.start_s
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
            self.statistics.n_partials += 1
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
        if latency_s is not None and not running.is_continuation:
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

    def _note_settled(
        self, running: RunningSegment, words: Sequence[BufferWord]
    ) -> None:
        """Note how long after its end each word of a completed segment settled."""
        now_s = self._clock.now()
        for index, word in enumerate(words):
            if word.end_s is None:
                continue
            end = running.start + round(word.end_s * SAMPLE_RATE_HZ)
            since_s = self._clock.since(end)
            if since_s is None:  # a recording has no delay
                return
            settled_at_s = now_s
            if index < len(running.settled_at_s):
                settled_at_s = running.settled_at_s[index]
            self.statistics.settle_s.append(since_s - (now_s - settled_at_s))

    def _moment(self, start_s: float) -> Moment:
        """Return the times of an event that begins at `start_s` of the stream."""
        return self._clock.moment(start_s, self.heard_s)


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
